from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

from presage.errors import InputError, UnreadableSourceError
from presage.estimators import Quantity
from presage.estimators.plugins import Kind, Limits, Manifest
from presage.estimators.plugins.manifest import manifest_of_labels, parse_manifest, read_manifest
from tests.estimators.plugins.conftest import CONTAINERS, read_back

PLAIN = {
    "api": "1", "name": '"plain"', "version": '"1.0"', "quantity": '"wait"', "kind": '"program"',
    "entrypoint": '["./run"]',
}  # fmt: skip


def write(folder: Path, **changes: str) -> Path:
    lines = [f"{key} = {text}" for key, text in (PLAIN | changes).items() if text]
    (folder / "estimator.toml").write_text("\n".join(lines))
    return folder


def test_a_manifest_is_read_and_comes_back(tmp_path: Path) -> None:
    folder = write(tmp_path, limits="{timeout_s = 5, memory_bytes = 100_000_000}", metrics="{median_error = 0.1}")
    manifest = read_manifest(folder)
    assert manifest == Manifest(
        "plain", "1.0", Quantity.WAIT, Kind.PROGRAM, entrypoint=("./run",),
        limits=Limits(timeout_s=5.0, memory_bytes=100_000_000), metrics={"median_error": 0.1},
    )  # fmt: skip
    assert read_back(manifest) == manifest


@pytest.mark.parametrize(
    "change",
    [
        {"api": "2"}, {"api": ""}, {"name": '"../up"'}, {"name": '"Has Spaces"'}, {"name": ""},
        {"version": '"1/2"'}, {"version": '".."'}, {"quantity": '"joy"'}, {"entrypoint": "[]"},
        {"kind": '"http"'}, {"kind": '"python"'},
        {"colour": "1"}, {"url": '"ftp://x"'}, {"limits": "["}, {"summary": '"\x00"'},
        {"limits": "{timeout_s = -1.0}"}, {"limits": "{memory_bytes = 1}"}, {"metrics": "{x = nan}"},
    ],
    ids=str,
)  # fmt: skip
def test_a_manifest_that_is_wrong_is_an_input_error(change: dict[str, str], tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"estimator\.toml"):
        read_manifest(write(tmp_path, **change))


def test_a_folder_without_a_manifest_is_unreadable(tmp_path: Path) -> None:
    with pytest.raises(UnreadableSourceError, match=r"a folder with estimator\.toml"):
        read_manifest(tmp_path)
    (tmp_path / "estimator.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match="not TOML"):
        read_manifest(tmp_path)


@pytest.mark.parametrize("document", [None, [], "text", {}, {"api": 1}])
def test_what_is_no_manifest_is_an_input_error(document: object) -> None:
    with pytest.raises(InputError, match="The place does not describe an estimator"):
        parse_manifest(document, place="The place")


def test_an_address_without_a_kind_is_http() -> None:
    said = {"api": 1, "name": "far", "version": "1", "quantity": "wait", "url": "https://far.example/estimate"}
    assert parse_manifest(said, place="here").kind is Kind.HTTP


@pytest.mark.parametrize("labels", [{}, {"presage.estimator.api": "one"}, {"presage.estimator.api": "1"}])
def test_an_image_without_labels_is_no_estimator(labels: dict[str, str]) -> None:
    with pytest.raises(InputError, match="does not describe an estimator"):
        manifest_of_labels(labels, place="the image")


@pytest.mark.parametrize("name", ["roofline-walltime", "peak-memory"])
def test_the_labels_of_a_reference_image_say_what_its_manifest_does(name: str) -> None:
    manifest = tomllib.loads((CONTAINERS / name / "estimator.toml").read_text())
    containerfile = (CONTAINERS / name / "Containerfile").read_text()
    for member in ("api", "name", "version", "quantity", "summary"):
        assert f'presage.estimator.{member}="{manifest[member]}"' in containerfile
    assert f"ENTRYPOINT {json.dumps(manifest['entrypoint'])}" in containerfile
