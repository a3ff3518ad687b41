from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Presage

pytest.importorskip("torch")

NETWORK = """\
import torch

def build_model(width: int = 50) -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Linear(100, width), torch.nn.ReLU(), torch.nn.Linear(width, 10))

def broken() -> torch.nn.Module:
    raise ValueError("no such width")
"""


@pytest.fixture
def network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PRESAGE_HOME", str(tmp_path / "state"))
    (tmp_path / "train.py").write_text(NETWORK)
    return "train.py:build_model"


def test_memory_and_time_of_every_batch_on_every_gpu(presage: Presage, network: str) -> None:
    result = presage(
        "estimate", network, "--input", "100", "--batch", "8,16", "--epochs", "2", "--samples", "1000",
        "--gpu", "v100-32", "--gpu", "a100-80", "--json",
    )  # fmt: skip
    assert result.exit_code == 0, result.err
    estimates = result.document["estimates"]
    assert [(each["batch"], each["place"]) for each in estimates] == [
        (8, "one v100-32"), (8, "one a100-80"), (16, "one v100-32"), (16, "one a100-80"),
    ]  # fmt: skip
    for each in estimates:
        assert each["parameters"] == 5560
        assert each["fits"] is True
        assert each["memory"]["basis"] == "modelled, unverified"
        for quantity in (each["memory"], each["walltime"]):
            assert 0 < quantity["p10"] <= quantity["p50"] <= quantity["p90"]


def test_on_this_machine_and_on_a_system_in_words(presage: Presage, network: str) -> None:
    here = presage("estimate", network, "--input", "100", "--batch", "8")
    assert here.exit_code == 0, here.err
    assert "this machine" in here.out
    assert "5,560 parameters" in here.out
    assert "how many samples" in here.err
    there = presage("estimate", network, "--input", "100", "--batch", "8", "--system", "osc-pitzer", "--json")
    places = [each["place"] for each in there.document["estimates"]]
    assert any("v100" in place for place in places)
    assert any("40 cores" in place for place in places)


def test_real_steps_refine_the_time(presage: Presage, network: str) -> None:
    result = presage(
        "estimate", network, "--input", "100", "--batch", "8", "--epochs", "2", "--samples", "1000",
        "--measure", "3", "--json",
    )  # fmt: skip
    assert result.exit_code == 0, result.err
    assert result.document["estimates"][0]["walltime"]["basis"] == "measured"


@pytest.mark.parametrize(
    ("arguments", "exit_code", "words"),
    [
        (("train.py:build_mdoel", "--input", "100"), 3, "build_model"),
        (("train.py:broken", "--input", "100"), 3, "no such width"),
        (("nowhere.py:f", "--input", "100"), 3, "nowhere.py"),
        (("train.py:build_model", "--input", "7"), 3, "[32, 7]"),
        (("train.py:build_model", "--input", "axb"), 2, "is no shape"),
        (("train.py:build_model", "--input", "100", "--gpu", "v100-33"), 2, "v100-32"),
        ((), 2, "No network is named"),
    ],
)
def test_mistakes_are_told_in_one_line(
    presage: Presage, network: str, arguments: tuple[str, ...], exit_code: int, words: str
) -> None:
    result = presage("estimate", *arguments, "--json")
    assert (result.exit_code, "Traceback" in result.err) == (exit_code, False)
    assert words in result.err
    assert result.document["error"]["problem"]
