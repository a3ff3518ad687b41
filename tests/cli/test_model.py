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


def test_evaluate_compares_with_boosting_that_saw_other_clusters(
    presage: Presage, log: str, tmp_path: Path
) -> None:
    pytest.importorskip("lightgbm")
    model = make_model("lublin", {"users": 9, "estimate": "modal", "processors": 16, "load": 0.9})
    other = tmp_path / "other.parquet"
    simulate(model.generate(jobs=700, seed=4), "fcfs+easy").trace.save(other)
    figures = presage("model", "evaluate", log, "--boost-on", str(other), "--json").document["baselines"]

    assert set(figures) == {"boosting-zero-shot"}
    assert figures["boosting-zero-shot"]["wait_log_mae"] < 3
    assert isinstance(figures["boosting-zero-shot"]["run_coverage_80"], float)


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
    card = presage("model", "card", "--model", str(out)).out
    assert card.index("## Fine-tuning") < card.index("presage-2\n\nForecasts") < card.index("### Known failures")
    assert "\nOn 800 jobs of " in card
    for task, network in (("wait", "- waits: learnt from"), ("run", "- run times and outcomes: learnt from")):
        line = next(each for each in card.splitlines() if each.startswith(network))
        assert f"{document[task]['log_mae_before']:.3f} before" in line
        assert ("takes over" in line) == document[task]["took_over"]


def test_pretrain_draws_synthetic_variants_of_logs_that_teach_enough(
    presage: Presage, log: str, tmp_path: Path
) -> None:
    pytest.importorskip("torch")
    few = tmp_path / "few.csv"
    few.write_text("job_id,submit_ms,start_ms,end_ms,cpus_req\n1,0,5000,9000,1\n2,1000,9000,12000,1\n")
    out = tmp_path / "own.safetensors"
    call = ("model", "pretrain", log, str(few), "--out", str(out), "--steps", "1", "--synthetic", "1", "--json")
    document = presage(*call).document

    assert document["trained_on"] == ["log.parquet", "few.csv"]
    assert document["notes"][0].startswith("few.csv has no synthetic variants")
    wrong = presage("model", "pretrain", log, "--out", str(out), "--synthetic", "1", "--synthesizer", "copla")
    assert (wrong.exit_code, "copula" in wrong.err) == (2, True)


def test_a_queue_beside_a_log_is_forecast_with_what_slurm_expects(
    presage: Presage, fixtures: Path, tmp_path: Path
) -> None:
    past = tmp_path / "past.txt"
    rows = [
        f"{9000 + n}|ada|main|2026-11-16T{n // 60:02}:{n % 60:02}:00|2026-11-16T{n // 60:02}:{n % 60:02}:30|"
        f"2026-11-16T{n // 60 + 1:02}:{n % 60:02}:00|COMPLETED|4|60"
        for n in range(60)
    ]
    past.write_text("\n".join(["JobID|User|Partition|Submit|Start|End|State|ReqCPUS|Timelimit", *rows]) + "\n")
    queue = str(fixtures / "squeue.json")
    document = presage("model", "forecast", str(past), queue, "--processors", "16", "--json").document
    jobs = {job["job_id"]: job for job in document["jobs"]}

    assert set(jobs) == {"1", "4", "5_1", "5_2", "5_3", "7"}
    assert (jobs["1"]["stands"], jobs["4"]["stands"]) == ("running", "pending")
    assert (jobs["4"]["scheduler_wait_s"], jobs["7"]["scheduler_wait_s"]) == (3599.0, None)
    assert jobs["4"]["wait_s"]["p50"] > 0
    text = presage("model", "forecast", str(past), queue, "--processors", "16").out
    assert "its scheduler expects" in text
    assert presage("load-forecast", str(past), queue, "--processors", "16", "--json").exit_code == 0


def test_update_keeps_a_store_that_forecast_reads(presage: Presage, log: str, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    store = str(tmp_path / "models")
    attempt = presage("model", "update", log, "--store", store, "--steps", "6", "--json").document

    assert attempt["version"] == "0001"
    assert presage("model", "forecast", log, "--model", store, "--at-submit", "1").exit_code == 0
