from __future__ import annotations

from pathlib import Path

import pytest

from presage.simulator import simulate
from presage.traces.workloads import make_model

from .conftest import Presage


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A log of 800 jobs with waits."""
    model = make_model("lublin", {"users": 12, "estimate": "modal", "processors": 32, "load": 0.9})
    path = tmp_path_factory.mktemp("logs") / "log.parquet"
    simulate(model.generate(jobs=800, seed=2), "fcfs+easy").trace.save(path)
    return str(path)


def test_forecast_tells_machines_everything(presage: Presage, log: str) -> None:
    done = presage("model", "forecast", log, "--at-submit", "5", "--json")
    document = done.document

    assert done.exit_code == 0
    assert document["model"].startswith("presage-")
    assert len(document["jobs"]) == 5
    job = document["jobs"][0]
    assert set(job["wait_s"]) == set(job["run_s"]) == {"p10", "p50", "p90"}
    assert set(job["outcome"]) >= {"completed", "failed", "cancelled", "timeout", "out_of_memory", "node_failure"}


def test_forecast_tells_people_in_a_table(presage: Presage, log: str) -> None:
    done = presage("model", "forecast", log, "--ask", "cpus=4, limit=1h, user=1")

    assert "new-1" in done.out
    assert "completes" in done.out


def test_evaluate_has_the_promised_keys(presage: Presage, log: str) -> None:
    document = presage("model", "evaluate", log, "--baselines", "state-knn,similar", "--json").document

    for key in ("wait_log_mae", "run_log_mae", "wait_coverage_80", "run_coverage_80"):
        assert isinstance(document[key], float)
        assert isinstance(document["baselines"]["similar"][key], float)
    assert document["baselines"]["state-knn"]["run_log_mae"] is None


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("forecast", "{log}", "--model", "nowhere.safetensors"), 3, "no model at"),
        (("forecast", "{log}", "--ask", "speed=3"), 2, "described by"),
        (("forecast", "{log}", "--job", "nobody"), 2, "no job"),
        (("evaluate", "{log}", "--baselines", "stat-knn"), 2, "state-knn"),
        (("rollback", "nowhere"), 2, "no earlier model"),
    ],
)
def test_wrong_calls_are_told_in_one_line(
    presage: Presage, log: str, arguments: tuple[str, ...], code: int, words: str
) -> None:
    done = presage("model", *(argument.format(log=log) for argument in arguments))

    assert done.exit_code == code
    assert words in done.err
    assert "Traceback" not in done.err


def test_the_card_names_data_and_recipe(presage: Presage) -> None:
    text = presage("model", "card").out
    document = presage("model", "card", "--json").document

    assert "Known failures" in text
    assert document["trained_on"]


def test_finetune_writes_a_model_that_forecasts(presage: Presage, log: str, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    out = tmp_path / "ours.safetensors"
    document = presage("model", "finetune", log, "--out", str(out), "--steps", "6", "--json").document

    assert set(document) >= {"wait", "run", "model"}
    again = presage("model", "forecast", log, "--model", str(out), "--at-submit", "1", "--json")
    assert again.document["model"] == document["model"]


def test_update_keeps_a_store_that_forecast_reads(presage: Presage, log: str, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    store = str(tmp_path / "models")
    attempt = presage("model", "update", log, "--store", store, "--steps", "6", "--json").document

    assert attempt["version"] == "0001"
    assert presage("model", "forecast", log, "--model", store, "--at-submit", "1").exit_code == 0
