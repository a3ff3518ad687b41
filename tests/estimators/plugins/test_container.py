"""Containers: images are built here, without a network, where buildah is; runners that do not work are skipped."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from presage.errors import InputError, UnreadableSourceError
from presage.estimators import Estimator, Quantity, UnsupportedError
from presage.estimators.plugins import BrokenPluginError, ContainerEstimator, Kind, Limits, Manifest, _runners
from presage.estimators.plugins._images import digest_of, read_image, unpack_image
from presage.estimators.plugins._process import ProcessFailedError
from presage.estimators.plugins._runners import (
    Apptainer,
    Bubblewrap,
    Container,
    Podman,
    Runner,
    Subprocess,
    choose_runner,
    find_runner,
    why_not,
)
from presage.estimators.plugins.container import save_image
from presage.estimators.plugins.manifest import manifest_of_labels
from presage.testing.estimators import EstimatorContract, make_training_request
from tests.estimators.plugins.archives import add, layer_of, small_archive, with_file
from tests.estimators.plugins.conftest import CONTAINERS, reference_program

BUILD_S = 300
REQUESTS = {
    "roofline-walltime": make_training_request(Quantity.WALLTIME),
    "peak-memory": make_training_request(Quantity.MEMORY),
}


@pytest.fixture(scope="session")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the archives of the reference estimators, built from this machine's own Python."""
    if shutil.which("buildah") is None or shutil.which("ldd") is None:
        pytest.skip("buildah is not installed, so no image can be built")
    mine = tmp_path_factory.getbasetemp()
    folder = (mine.parent if "PYTEST_XDIST_WORKER" in os.environ else mine) / "images"
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # several processes that test share what one of them builds
        if not (folder / "built").exists():
            build_images(folder)
            (folder / "built").touch()
    return folder


def build_images(folder: Path) -> None:
    store = ["--root", str(folder / "store"), "--runroot", str(folder / "run"), "--storage-driver", "vfs"]

    def build(*words: str) -> None:
        done = subprocess.run(["buildah", *store, *words], capture_output=True, text=True, timeout=BUILD_S)
        if done.returncode != 0:
            pytest.skip(f"buildah cannot build here: {done.stderr.strip()[-300:]}")

    context = folder / "context"
    shutil.rmtree(context, ignore_errors=True)
    subprocess.run([sys.executable, CONTAINERS / "base" / "collect.py", context], check=True, timeout=BUILD_S)
    base = str(CONTAINERS / "base" / "Containerfile")
    build("bud", "--isolation", "chroot", "-q", "-t", "localhost/presage-python", "-f", base, str(context))
    for name in REQUESTS:
        based = ["--build-arg", "BASE=localhost/presage-python"]
        build("bud", "--isolation", "chroot", "-q", *based, "-t", f"localhost/{name}", str(CONTAINERS / name))
        build("push", "-q", f"localhost/{name}", f"oci-archive:{folder / name}.tar")
    shutil.rmtree(folder / "store", ignore_errors=True)
    shutil.rmtree(context)


def estimator_of(images: Path, name: str, runner: Runner | None) -> ContainerEstimator:
    archive = images / f"{name}.tar"
    manifest = manifest_of_labels(read_image(archive).labels, place=str(archive))
    return ContainerEstimator(manifest, archive, images / f"{name}.files", runner=runner)


@pytest.fixture(scope="session")
def podman_store() -> Iterator[list[str]]:
    """Give options for a podman with a store of its own, where paths may not be long."""
    with tempfile.TemporaryDirectory(prefix="pp-", ignore_cleanup_errors=True) as folder:
        yield ["--root", f"{folder}/store", "--runroot", f"{folder}/run", "--storage-driver", "vfs"]


def candidates(name: str, store: list[str]) -> list[Runner]:
    """Return a runner, or the ways to have it."""
    if name != "podman":
        return [find_runner(name)]
    # One that may not raise limits, as inside of a container, works with a runtime that is not told of them.
    return [Podman(*store), Podman(*store, "--runtime", str(runtime_without_limits(Path(store[1]).parent)))]


def runtime_without_limits(folder: Path) -> Path:
    shim = folder / "runtime"
    shim.write_text(f"""#!{sys.executable}
import json, os, sys
if "--bundle" in sys.argv:
    path = os.path.join(sys.argv[sys.argv.index("--bundle") + 1], "config.json")
    with open(path) as file:
        config = json.load(file)
    config["process"].pop("rlimits", None)
    with open(path, "w") as file:
        json.dump(config, file)
os.execv({shutil.which("runc") or "/usr/sbin/runc"!r}, ["runc", *sys.argv[1:]])
""")
    shim.chmod(0o755)
    return shim


def working(names: list[str], images: Path, store: list[str]) -> Runner:
    """Return the first of the runners that works here; skip if there is none."""
    archive = images / "peak-memory.tar"
    container = Container(archive, read_image(archive), images / "peak-memory.files")
    reasons = []
    for name in names:
        for runner in candidates(name, store):
            reason = why_not(runner, container, Limits())
            if not reason:
                return runner
            reasons.append(f"{name} runs no container here: {reason}")
    pytest.skip("; ".join(reasons))


@pytest.fixture(scope="session", params=["podman", "apptainer", "bubblewrap", "subprocess"])
def runner(request: pytest.FixtureRequest, images: Path, podman_store: list[str]) -> Runner:
    """Return each runner that works here."""
    return working([request.param], images, podman_store)


@pytest.mark.slow
@pytest.mark.parametrize("name", REQUESTS)
def test_a_reference_container_answers_as_its_program_does(name: str, images: Path, runner: Runner) -> None:
    contained = estimator_of(images, name, runner)
    assert contained.manifest.kind is Kind.CONTAINER
    assert contained.estimate(REQUESTS[name]) == reference_program(name).estimate(REQUESTS[name])


@pytest.mark.slow
class TestContainerContract(EstimatorContract):
    @pytest.fixture
    def estimator(self, images: Path, podman_store: list[str]) -> Estimator:
        isolating = working(["bubblewrap", "podman", "apptainer"], images, podman_store)
        return estimator_of(images, "roofline-walltime", isolating)


@pytest.fixture
def probing(images: Path, runner: Runner, tmp_path: Path) -> ContainerEstimator:
    """Return a container that tells what it can do: the reference image with another program in it."""
    if isinstance(runner, Subprocess):
        pytest.skip("a plain subprocess holds nothing back")
    program = b"""
import json, os, socket, sys
def fails(action):
    try:
        action()
    except OSError as error:
        return type(error).__name__
    return "done"
def connect():
    socket.create_connection(("192.0.2.1", 80), 1)
found = {
    "uid": os.getuid(),
    "write": fails(lambda: open("/estimator/x", "w")),
    "tmp": fails(lambda: open("/tmp/x", "w")),
    "network": fails(connect),
    "secret": os.environ.get("SECRET_TOKEN"),
    "processes": sum(name.isdigit() for name in os.listdir("/proc")),
}
if sys.stdin.read() == "greedy":
    bytearray(2 << 30)
print(json.dumps({"quantity": "walltime", "p10": 1, "p50": 2, "p90": 3, "basis": "stated", "details": found}))
"""
    archive = tmp_path / "probing.tar"
    with_file(images / "roofline-walltime.tar", archive, "estimator/estimator.py", program)
    manifest = Manifest("probing", "1", Quantity.WALLTIME, Kind.CONTAINER, limits=Limits(memory_bytes=256 << 20))
    return ContainerEstimator(manifest, archive, tmp_path / "files", runner=runner)


@pytest.mark.slow
def test_a_container_has_no_network_no_rights_and_nothing_to_write_to(
    probing: ContainerEstimator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_TOKEN", "x")
    found = probing.estimate(make_training_request(Quantity.WALLTIME)).details
    assert found["uid"] == 65534
    assert found["write"] != "done"
    assert found["tmp"] != "done"
    assert found["network"] == "OSError"
    assert found["secret"] is None
    assert found["processes"] <= 3


@pytest.mark.slow
def test_a_container_that_takes_too_much_memory_is_broken(probing: ContainerEstimator) -> None:
    with pytest.raises(BrokenPluginError):
        probing.ask(b"greedy")
    assert probing.estimate(make_training_request(Quantity.WALLTIME)).spread.p50 == 2


def test_layers_cover_and_remove_what_is_below_them(tmp_path: Path) -> None:
    lower = layer_of(("a/one", b"1"), ("a/two", b"2"), ("b/three", b"3"), ("c", b"4"), mode=0o6755, uid=1234)
    upper = layer_of(("a/.wh.one", b""), ("b/.wh..wh..opq", b""), ("b/four", b"44"), ("c", b"5"))
    archive = small_archive(tmp_path / "image.tar", lower, upper)
    root = unpack_image(archive, read_image(archive), tmp_path / "files")
    found = {path.relative_to(root).as_posix(): path for path in root.rglob("*") if path.is_file()}
    assert set(found) == {"a/two", "b/four", "c"}
    assert found["c"].read_bytes() == b"5"
    assert found["a/two"].stat().st_mode & 0o7000 == 0
    assert found["a/two"].stat().st_uid == os.getuid()
    found["a/two"].write_bytes(b"kept: unpacked once")
    assert unpack_image(archive, read_image(archive), tmp_path / "files") == root
    assert found["a/two"].read_bytes() == b"kept: unpacked once"


@pytest.mark.parametrize(
    "layers",
    [
        [layer_of(("../outside", b"x"))],
        [layer_of(("link", b""), type=tarfile.SYMTYPE, linkname="../.."), layer_of(("link/outside", b"x"))],
        [layer_of(("hard", b""), type=tarfile.LNKTYPE, linkname="../image.tar")],
        [layer_of(("link", b""), type=tarfile.SYMTYPE, linkname=".."), layer_of(("link/.wh.keep", b""))],
        [layer_of(("link", b""), type=tarfile.SYMTYPE, linkname=".."), layer_of(("link/.wh..wh..opq", b""))],
        [b"no layer at all"],
    ],
    ids=["up", "through a link", "a hard link", "removing", "emptying", "rubbish"],
)
def test_an_image_stays_in_its_folder(layers: list[bytes], tmp_path: Path) -> None:
    (tmp_path / "files").mkdir()
    (tmp_path / "keep").write_text("kept")
    archive = small_archive(tmp_path / "image.tar", *layers)
    with pytest.raises(InputError):
        unpack_image(archive, read_image(archive), tmp_path / "files")
    assert not (tmp_path / "outside").exists()
    assert not (tmp_path / "files" / "outside").exists()
    assert (tmp_path / "keep").read_text() == "kept"


def test_devices_are_left_out_and_absolute_links_are_the_images_own(tmp_path: Path) -> None:
    device = layer_of(("dev-null", b""), type=tarfile.CHRTYPE)
    link = layer_of(("etc-hosts", b""), type=tarfile.SYMTYPE, linkname="/etc/hosts")
    archive = small_archive(tmp_path / "image.tar", device, link)
    root = unpack_image(archive, read_image(archive), tmp_path / "files")
    assert not (root / "dev-null").exists()
    assert str((root / "etc-hosts").readlink()) == "/etc/hosts"


def test_an_image_says_how_it_is_run(tmp_path: Path) -> None:
    image = read_image(small_archive(tmp_path / "image.tar", Cmd=["--fast"], Labels={"x": "y"}))
    assert image.command == ("python3", "estimator.py", "--fast")
    assert (image.working_folder, image.environment, image.labels) == ("/estimator", {"A": "b=c"}, {"x": "y"})
    assert image.config_digest == "sha256:c0"


@pytest.mark.parametrize("content", [b"", b"rubbish" * 1000])
def test_what_is_no_archive_is_an_input_error(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "image.tar").write_bytes(content)
    with pytest.raises(InputError, match="no OCI archive"):
        read_image(tmp_path / "image.tar")


@pytest.mark.parametrize(
    "index",
    [
        {},
        [],
        {"manifests": []},
        {"manifests": [{}]},
        {"manifests": [{"digest": "sha256:../../x"}]},
        {"manifests": 3},
    ],
)
def test_an_archive_without_an_image_is_an_input_error(index: object, tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "image.tar", "w") as tar:
        add(tar, "index.json", json.dumps(index).encode())
    with pytest.raises(InputError):
        read_image(tmp_path / "image.tar")


def test_a_missing_archive_is_unreadable_and_its_estimator_broken(tmp_path: Path) -> None:
    with pytest.raises(UnreadableSourceError):
        read_image(tmp_path / "image.tar")
    manifest = Manifest("gone", "1", Quantity.WALLTIME, Kind.CONTAINER)
    with pytest.raises(BrokenPluginError, match="cannot be read"):
        ContainerEstimator(manifest, tmp_path / "image.tar", tmp_path / "files").estimate(
            make_training_request(Quantity.WALLTIME)
        )


def test_a_digest_is_of_names_and_contents(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    for folder in (first, second):
        (folder / "x").mkdir(parents=True)
        (folder / "x" / "y").write_text("1")
    assert digest_of(first) == digest_of(second)
    (second / "x" / "y").rename(second / "x" / "z")
    assert digest_of(first) != digest_of(second)


def stand_in(folder: Path, name: str, code: str) -> None:
    """Put a command of that name into a folder; it notes its words and does as told."""
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(
        f"#!{sys.executable}\nimport json, sys\n"
        f"with open({str(folder / 'said')!r}, 'a') as f: f.write(json.dumps(sys.argv[1:]) + '\\n')\n{code}\n"
    )
    path.chmod(0o755)


@pytest.fixture
def container(tmp_path: Path) -> Container:
    program = (CONTAINERS / "peak-memory" / "estimator.py").read_bytes()
    archive = small_archive(tmp_path / "image.tar", layer_of(("estimator/estimator.py", program)))
    return Container(archive, read_image(archive), tmp_path / "files")


def said(folder: Path) -> list[list[str]]:
    return [json.loads(line) for line in (folder / "said").read_text().splitlines()]


def test_apptainer_is_told_to_hold_everything_back(
    container: Container, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(tmp_path / "bin", "apptainer", "sys.exit(2)")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    assert why_not(Apptainer(), container, Limits(memory_bytes=1 << 28, processes=9)) == ""
    (words,) = said(tmp_path / "bin")
    assert {"--containall", "--cleanenv", "--no-home", "--network=none", "--memory=268435456"} <= set(words)
    assert words[-1] == f"oci-archive:{container.archive}"


def test_podman_loads_an_image_once_and_tidies_up(
    container: Container, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_runners, "_STARTING_S", 1.0)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    stand_in(tmp_path / "bin", "podman", "sys.exit(1 if 'exists' in sys.argv else 0)")
    Podman("--runtime", "runc").run(container, b"{}", Limits())
    exists, load, run = said(tmp_path / "bin")
    assert exists == ["--runtime", "runc", "image", "exists", "c0"]
    assert load[2:4] == ["load", "--quiet"]
    assert {"--network=none", "--read-only", "--cap-drop=all", "--user=65534:65534", "--pids-limit=64"} <= set(run)
    stand_in(tmp_path / "bin", "podman", "import time; time.sleep(30 if 'run' in sys.argv else 0)")
    with pytest.raises(ProcessFailedError, match="longer"):
        Podman().run(container, b"{}", Limits(timeout_s=0.1))
    assert said(tmp_path / "bin")[-1][:3] == ["rm", "--force", "--ignore"]
    stand_in(tmp_path / "bin", "podman", "sys.stderr.write('Error: no cgroups'); sys.exit(125)")
    assert "no cgroups" in why_not(Podman(), container, Limits())


def test_the_first_runner_that_works_is_chosen_and_remembered(
    container: Container, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_runners, "_working", {})
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    with pytest.raises(ProcessFailedError, match=r"podman is not installed; .*bwrap is not installed"):
        choose_runner(container, Limits())
    stand_in(tmp_path / "bin", "podman", "sys.exit(125)")
    stand_in(tmp_path / "bin", "bwrap", "sys.exit(2)")
    assert isinstance(choose_runner(container, Limits()), Bubblewrap)
    calls = len(said(tmp_path / "bin"))
    choose_runner(container, Limits())
    assert len(said(tmp_path / "bin")) == calls
    monkeypatch.setattr(_runners, "_working", {})
    choose_runner(container, Limits())
    assert len(said(tmp_path / "bin")) == calls + 1, "the one that worked last time was not tried first"


def test_an_image_is_saved_by_whoever_has_it(
    container: Container, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    with pytest.raises(InputError, match="podman is not installed; buildah is not installed"):
        save_image("half", tmp_path / "out.tar")
    stand_in(tmp_path / "bin", "podman", "sys.stderr.write('no such image'); sys.exit(125)")
    copy = f"open(sys.argv[-1].split(':', 1)[1], 'wb').write(open({str(container.archive)!r}, 'rb').read())"
    stand_in(tmp_path / "bin", "buildah", copy)
    save_image("localhost/half:1", tmp_path / "out.tar")
    assert read_image(tmp_path / "out.tar") == container.image
    assert said(tmp_path / "bin")[-1] == [
        "push", "--quiet", "localhost/half:1", f"oci-archive:{tmp_path / 'out.tar'}",
    ]  # fmt: skip
    stand_in(tmp_path / "bin", "buildah", "sys.exit(1)")
    with pytest.raises(InputError, match="podman: no such image; buildah: it gave no reason"):
        save_image("half", tmp_path / "out.tar")
    with pytest.raises(InputError, match="is no image"):
        save_image("--help", tmp_path / "out.tar")


def test_without_a_container_the_program_in_the_image_runs_by_itself(container: Container) -> None:
    manifest = Manifest("bare", "1", Quantity.MEMORY, Kind.CONTAINER)
    bare = ContainerEstimator(manifest, container.archive, container.unpacked, runner=Subprocess())
    answer = bare.estimate(REQUESTS["peak-memory"])
    assert answer.spread == reference_program("peak-memory").estimate(REQUESTS["peak-memory"]).spread
    with pytest.raises(UnsupportedError):
        bare.estimate(make_training_request(Quantity.WAIT))
