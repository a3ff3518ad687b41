"""OCI archives, made by hand."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from pathlib import Path


def with_file(archive: Path, out: Path, name: str, content: bytes) -> None:
    """Write an archive with one more layer, which has one file."""
    files = {member.name: data for member, data in members_of(archive)}
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as tar:
        add(tar, name, content)
    index = json.loads(files["index.json"])
    old = index["manifests"][0]["digest"].partition(":")[2]
    manifest = json.loads(files.pop(f"blobs/sha256/{old}"))
    config = json.loads(files.pop(f"blobs/sha256/{manifest['config']['digest'].partition(':')[2]}"))

    def blob(data: bytes, kind: str) -> dict[str, object]:
        digest = hashlib.sha256(data).hexdigest()
        files[f"blobs/sha256/{digest}"] = data
        return {"mediaType": kind, "digest": f"sha256:{digest}", "size": len(data)}

    made = blob(layer.getvalue(), "application/vnd.oci.image.layer.v1.tar")
    config["rootfs"]["diff_ids"].append(made["digest"])
    config.pop("history", None)
    manifest["layers"].append(made)
    manifest["config"] = blob(json.dumps(config).encode(), manifest["config"]["mediaType"])
    index["manifests"] = [blob(json.dumps(manifest).encode(), index["manifests"][0]["mediaType"])]
    files["index.json"] = json.dumps(index).encode()
    with tarfile.open(out, "w") as tar:
        for each, data in files.items():
            add(tar, each, data)


def members_of(archive: Path) -> list[tuple[tarfile.TarInfo, bytes]]:
    with tarfile.open(archive) as tar:
        return [(member, file.read()) for member in tar if (file := tar.extractfile(member)) is not None]


def add(tar: tarfile.TarFile, name: str, content: bytes, **more: object) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(content)
    member.mode = 0o644
    for key, value in more.items():
        setattr(member, key, value)
    tar.addfile(member, io.BytesIO(content))


def small_archive(path: Path, *layers: bytes, **config: object) -> Path:
    """Write an OCI archive of a few files, made by hand."""
    run = {
        "Entrypoint": ["python3", "estimator.py"],
        "WorkingDir": "/estimator",
        "Env": ["A=b=c", "odd"],
        **config,
    }
    manifest = {
        "config": {"digest": "sha256:c0"},
        "layers": [{"digest": f"sha256:1a{n}"} for n in range(len(layers))],
    }
    with tarfile.open(path, "w") as tar:
        add(tar, "index.json", json.dumps({"manifests": [{"digest": "sha256:ab"}]}).encode())
        add(tar, "blobs/sha256/ab", json.dumps(manifest).encode())
        add(tar, "blobs/sha256/c0", json.dumps({"config": run}).encode())
        for number, layer in enumerate(layers):
            add(tar, f"blobs/sha256/1a{number}", layer)
    return path


def layer_of(*files: tuple[str, bytes], **more: object) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, content in files:
            add(tar, name, content, **more)
    return buffer.getvalue()
