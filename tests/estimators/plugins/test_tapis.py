"""Container estimators as applications of Tapis: asked as all others are, and run elsewhere."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from presage.connectors.tapis import programs
from presage.estimators import Estimator, Quantity, UnsupportedError
from presage.estimators.plugins import BrokenPluginError, ContainerEstimator, Kind, Limits, Manifest
from presage.estimators.plugins._images import read_image
from presage.estimators.plugins._runners import Container, find_runner, why_not
from presage.testing.estimators import EstimatorContract, make_script_request, make_training_request
from presage.testing.tapis import FakeTapis
from tests.estimators.plugins.archives import layer_of, small_archive
from tests.estimators.plugins.conftest import CONTAINERS, reference_program

NAME = "peak-memory"
PUBLISHED = "docker://registry.example.org/estimators/peak-memory:1.0.0"
LABELS = {
    "presage.estimator.api": "1",
    "presage.estimator.name": NAME,
    "presage.estimator.version": "1.0.0",
    "presage.estimator.quantity": "memory",
    "presage.estimator.request": "variable",
}
REQUEST = make_training_request(Quantity.MEMORY)


@pytest.fixture(scope="module")
def server() -> Iterator[FakeTapis]:
    with FakeTapis(nodes=4, rate=4) as fake:  # the minute that a job may take is enough for a busy machine
        fake.services.entry_points[PUBLISHED] = f"{sys.executable} -I {CONTAINERS / NAME / 'estimator.py'}"
        yield fake


@pytest.fixture
def tapis(server: FakeTapis, monkeypatch: pytest.MonkeyPatch) -> FakeTapis:
    """A Tapis that the settings name, with a registry that has the image."""
    monkeypatch.setattr(programs, "_PAUSES_S", (0.05,))
    monkeypatch.setenv("PRESAGE_TAPIS_URL", server.base_url)
    monkeypatch.setenv("PRESAGE_TAPIS_SYSTEM", server.system)
    monkeypatch.setenv("PRESAGE_TAPIS_USERNAME", server.username)
    monkeypatch.setenv("PRESAGE_TAPIS_PASSWORD", server.password)
    monkeypatch.setenv("PRESAGE_TAPIS__REGISTRY", "docker://registry.example.org/estimators/")
    with server.machine.lock:
        server.machine.jobs.clear()
    server.services.apps.clear()
    return server


def estimator_in(folder: Path, **labels: str) -> ContainerEstimator:
    program = (CONTAINERS / NAME / "estimator.py").read_bytes()
    layer = layer_of(("estimator/estimator.py", program))
    archive = small_archive(folder / "image.tar", layer, Labels={**LABELS, **labels})
    manifest = Manifest(NAME, "1.0.0", Quantity.MEMORY, Kind.CONTAINER)
    return ContainerEstimator(manifest, archive, folder / "files", runner=find_runner("tapis"))


class TestContract(EstimatorContract):
    @pytest.fixture
    def estimator(self, tapis: FakeTapis, tmp_path: Path) -> Estimator:
        return estimator_in(tmp_path)


def test_the_answer_is_the_programs_and_the_image_is_registered(tapis: FakeTapis, tmp_path: Path) -> None:
    estimator = estimator_in(tmp_path)
    assert estimator.estimate(REQUEST).spread == reference_program(NAME).estimate(REQUEST).spread
    application = tapis.services.apps["estimator-peak-memory", "1.0.0"]
    assert (application["containerImage"], application["runtime"]) == (PUBLISHED, "SINGULARITY")
    job = list(tapis.machine.jobs.values())[-1]
    assert (job.facts["memoryMB"], job.facts["maxMinutes"]) == (512, 1)
    assert "--containall" in job.facts["parameterSet"]
    before = tapis.calls.count("jobs.submitJob")
    estimator.estimate(REQUEST)
    assert tapis.calls.count("jobs.submitJob") == before, "the same question was a second job"
    with pytest.raises(UnsupportedError, match="not profiled"):
        estimator.estimate(replace(REQUEST, profile=None))
    noise = random.Random(1).randbytes(80_000).hex()
    with pytest.raises(UnsupportedError, match="too long for Tapis"):
        estimator.estimate(make_script_request(Quantity.MEMORY, script=noise))


def test_an_image_says_itself_where_it_is_published(tapis: FakeTapis, tmp_path: Path) -> None:
    other = "docker://example.org/other:1"
    tapis.services.entry_points[other] = "true"
    estimator = estimator_in(tmp_path, **{"presage.estimator.published": other})
    with pytest.raises(BrokenPluginError, match="is not as api 1 has it"):
        estimator.estimate(REQUEST)
    assert tapis.services.apps["estimator-peak-memory", "1.0.0"]["containerImage"] == other


def test_what_cannot_be_run_there_is_said(
    tapis: FakeTapis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    silent = estimator_in(tmp_path, **{"presage.estimator.request": ""})
    runner = find_runner("tapis")
    container = Container(silent.archive, read_image(silent.archive), silent.unpacked)
    assert "does not say that it reads PRESAGE_REQUEST" in why_not(runner, container, Limits())
    archive = estimator_in(tmp_path).archive
    container = Container(archive, read_image(archive), silent.unpacked)
    assert why_not(runner, container, Limits()) == ""
    monkeypatch.delenv("PRESAGE_TAPIS__REGISTRY")
    tapis.services.apps.clear()
    assert "Name its container image" in why_not(runner, container, Limits())
    monkeypatch.delenv("PRESAGE_TAPIS_URL")
    assert "PRESAGE_TAPIS_URL" in why_not(runner, container, Limits())
