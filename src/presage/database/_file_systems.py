"""Whether a file is shared by several hosts, where SQLite's write-ahead log would do harm."""

from __future__ import annotations

from pathlib import Path

_MOUNTS = Path("/proc/self/mounts")
_SHARED = ("nfs", "lustre", "gpfs", "beegfs", "ceph", "cifs", "smb", "afs", "panfs", "wekafs", "fuse.sshfs", "9p")


def is_on_a_network(path: Path, mounts: Path = _MOUNTS) -> bool:
    """Tell whether a file, or the place where it will be, is on a file system that other hosts may use as well."""
    try:
        lines = mounts.read_text(errors="replace").splitlines()
    except OSError:
        return False
    place = path.absolute().resolve()
    found = [
        (len(point), kind)
        for _device, point, kind in (line.split()[:3] for line in lines if len(line.split()) > 2)
        if place.is_relative_to(point.replace("\\040", " "))
    ]
    return bool(found) and max(found)[1].startswith(_SHARED)
