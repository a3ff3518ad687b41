"""Copies the interpreter that runs this, its standard library and their shared libraries into a folder.

    python containers/base/collect.py FOLDER

With that folder as its context, `Containerfile` makes a base image of about 50 MB without a network.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

LEFT_OUT = ("__pycache__", "site-packages", "test", "tests", "idlelib", "ensurepip", "tkinter", "turtledemo",
            "lib2to3", "config-*", "*.a", "_test*.so", "_tkinter*.so")  # fmt: skip


def collect(context: str) -> None:
    """Fill `context` with what the Containerfile copies."""
    root = Path(context) / "root"
    python = root / "python"
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    binary = python / "bin" / "python3"
    binary.parent.mkdir(parents=True)
    shutil.copy2(os.path.realpath(sys.executable), binary)
    library = python / "lib" / version
    shutil.copytree(sysconfig.get_path("stdlib"), library, ignore=shutil.ignore_patterns(*LEFT_OUT))
    dynamic = Path(sysconfig.get_config_var("DESTSHARED") or "")
    if dynamic.is_dir() and not (library / "lib-dynload").is_dir():
        shutil.copytree(dynamic, library / "lib-dynload", ignore=shutil.ignore_patterns(*LEFT_OUT))
    for shared in sorted(shared_libraries([binary, *library.glob("lib-dynload/*.so")])):
        place = root / shared.relative_to("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(os.path.realpath(shared), place)
    for name in ("proc", "dev", "tmp", "sys", "etc"):
        (root / name).mkdir(exist_ok=True)


def shared_libraries(files: list[Path]) -> set[Path]:
    """Return where the dynamic linker finds what the files need, itself included."""
    found = set()
    for file in files:
        listing = ["ldd", str(file)]
        listed = subprocess.run(  # noqa: S603  (our own files)
            listing, capture_output=True, text=True, check=False, timeout=60
        ).stdout
        found.update(Path(path) for path in re.findall(r"(/\S+) \(0x", listed))
    return found


if __name__ == "__main__":
    collect(sys.argv[1])
