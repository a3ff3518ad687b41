from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from numpy.typing import NDArray

from presage.registry import Spec
from presage.synthesizers import SYNTHESIZERS, Synthesizer, Training, load_synthesizer
from presage.synthesizers._base import Drawing
from presage.synthesizers.columns import JobTable
from presage.synthesizers.known_jobs import KnownJobs
from presage.traces import Trace
from presage.traces.workloads import make_model, parameter

from .conftest import Presage


@dataclass(frozen=True)
class PatientSettings:
    epochs: int = parameter(3, "how many epochs", minimum=1)


class Patient(Synthesizer):
    """Draws the jobs of the log again; learning is waiting, and Ctrl-C comes after the second epoch."""

    name: ClassVar[str] = "patient"
    settings_type: ClassVar[type] = PatientSettings
    notice: ClassVar[str] = "for tests only"
    interrupts: ClassVar[bool] = False

    def _learn(self, table: JobTable, later: JobTable, training: Training) -> dict[str, Any]:
        kept = training.checkpoint
        assert kept is not None
        done = int(kept.read_text()) if kept.exists() else 0
        begun = done
        while done < self.settings.epochs:
            done += 1
            training.tell(done, self.settings.epochs, "score 1")
            kept.write_text(str(done))
            if done == 2 and self.interrupts:
                raise KeyboardInterrupt
        kept.unlink(missing_ok=True)
        self.table = JobTable.joined([table, later])
        return {"epochs": done, "best_epoch": done, "scores": [1.0] * done, "went_on_from": begun}

    def _draw(self, count: int, start_ms: int, rng: np.random.Generator, drawing: Drawing) -> JobTable:
        return self.table.rows(np.arange(count) % len(self.table))

    def _arrays(self) -> dict[str, NDArray[Any]]:
        return {}

    def _restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        pass


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A log of 600 jobs, with users and limits and without waits."""
    model = make_model("lublin", {"users": 12, "estimate": "modal", "processors": 64, "load": 0.7})
    path = tmp_path_factory.mktemp("logs") / "log.parquet"
    model.generate(600, seed=2).save(path)
    return str(path)


@pytest.fixture(scope="module")
def trained(log: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("models") / "lublin"
    SYNTHESIZERS.get("lublin").train(Trace.load(log)).save(folder)
    return str(folder)


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> type[Patient]:
    monkeypatch.setitem(SYNTHESIZERS._specs, "patient", Spec("patient", f"{__name__}:Patient", "waits"))
    monkeypatch.setattr(Patient, "interrupts", False)
    return Patient


def test_list_tells_what_there_is_and_what_it_needs(presage: Presage, patient: type[Patient]) -> None:
    kinds = {kind["name"]: kind for kind in presage("synth", "list", "--json").document}

    assert kinds["lublin"] == {
        "name": "lublin", "summary": "Lublin and Feitelson's model (2003), fitted to the log", "extra": None,
        "installed": True, "private": False, "notice": None,
    }  # fmt: skip
    assert kinds["tvae"]["extra"] == "torch"
    assert kinds["tvae"]["private"]
    assert "for tests only" in presage("synth", "list").out


def test_list_tells_what_can_be_set(presage: Presage) -> None:
    assert presage("synth", "list", "lublin", "--json").document["rounds"]["default"] == 200
    assert "rounds" in presage("synth", "list", "lublin").out


def test_how_many_jobs_are_equal_to_one_of_the_log_is_told(presage: Presage, log: str, tmp_path: Path) -> None:
    trace = Trace.load(log)
    model = SYNTHESIZERS.get("lublin").train(trace)
    model.known_jobs = KnownJobs.of(model.columns, model.columns.encode(trace), np.array([1e9]))
    model.save("m")
    told = presage("synth", "sample", "m", "--out", "s.parquet", "--copies", "0").out
    assert told == "s.parquet: 600 jobs of lublin, seed 0; 0 of them equal to one of the log\n"


def test_train_and_sample_and_nothing_else_on_stdout(presage: Presage, log: str, tmp_path: Path) -> None:
    document = presage("synth", "train", log, "--model", "lublin", "--out", "m", "--seed", "3", "--json").document

    assert document["model"] == "lublin"
    assert document["jobs"] == 600
    assert document["record"]["seed"] == 3
    assert document["settings"] == {"rounds": 200}

    drawn = presage(
        "synth", "sample", "m", "--out", "s.parquet", "--jobs", "250", "--seed", "1", "--json"
    ).document
    assert drawn["summary"]["jobs"] == 250
    assert drawn["summary"]["synthetic"]
    assert drawn["generator"]["synthesizer"] == "lublin"
    assert len(Trace.load(tmp_path / "s.parquet")) == 250


def test_people_are_told_in_one_line(presage: Presage, log: str) -> None:
    done = presage("synth", "train", log, "--model", "lublin", "--out", "m", "--latest", "300")

    assert done.out.startswith("m: lublin of 300 jobs; ")
    assert presage("synth", "sample", "m", "--out", "s.swf").out == "s.swf: 300 jobs of lublin, seed 0\n"


def test_the_first_or_the_last_jobs_can_be_learned_from(presage: Presage, log: str) -> None:
    first = presage("synth", "train", log, "--model", "lublin", "--out", "a", "--limit", "300", "--json").document
    last = presage("synth", "train", log, "--model", "lublin", "--out", "b", "--latest", "300", "--json").document

    assert first["jobs"] == last["jobs"] == 300
    assert load_synthesizer("a").source.last_ms <= load_synthesizer("b").source.first_ms


def test_sample_takes_every_wish(presage: Presage, trained: str, log: str) -> None:
    wishes = ("--load", "0.8", "--processors", "128", "--mix", "serial=0.5", "--mix", "huge=0.01")
    wishes += ("--start", "2026-01-05T00:00+00:00", "--waits", "fcfs+easy", "--seed", "4")
    summary = presage("synth", "sample", trained, "--out", "s.jsonl", "--jobs", "400", *wishes, "--json").document[
        "summary"
    ]

    assert summary["processors"] == 128
    assert summary["load"] == pytest.approx(0.8, rel=0.01)
    assert summary["first_submit"].startswith("2026-01-0")
    assert summary["mean_wait_s"] is not None

    after = presage(
        "synth", "sample", trained, "--out", "t.parquet", "--after", log, "--days", "2", "--json"
    ).document
    real = Trace.load(log).jobs["submit_ms"]
    assert Trace.load("t.parquet").jobs["submit_ms"][0] >= real[-1]
    assert 0 < after["summary"]["span_s"] <= 2 * 86_400


def test_sample_can_write_to_a_pipe(presage: Presage, trained: str) -> None:
    done = presage("synth", "sample", trained, "--out", "-", "--to", "csv", "--jobs", "10")

    assert len(done.out.splitlines()) == 11


def test_a_trained_model_is_not_overwritten(presage: Presage, log: str) -> None:
    call = ("synth", "train", log, "--model", "lublin", "--out", "m")
    presage(*call, "--seed", "1")
    for more in ((), ("--resume",)):
        refused = presage(*call, *more)
        assert refused.exit_code == 2
        assert "--force" in refused.err
    assert presage(*call, "--seed", "2", "--force").exit_code == 0
    assert load_synthesizer("m").record["seed"] == 2


def test_an_interrupted_training_goes_on(
    presage: Presage, log: str, patient: type[Patient], monkeypatch: pytest.MonkeyPatch
) -> None:
    call = ("synth", "train", log, "--model", "patient", "--out", "m")
    monkeypatch.setattr(patient, "interrupts", True)
    stopped = presage(*call)

    assert stopped.exit_code == 130
    assert "m/checkpoint.safetensors" in stopped.err
    assert "--resume" in stopped.err
    assert Path("m/checkpoint.safetensors").read_text() == "2"

    monkeypatch.setattr(patient, "interrupts", False)
    refused = presage(*call)
    assert refused.exit_code == 2
    assert "--resume" in refused.err
    assert Path("m/checkpoint.safetensors").exists()

    record = presage(*call, "--resume", "--json").document["record"]
    assert record["went_on_from"] == 2
    assert not Path("m/checkpoint.safetensors").exists()


def test_force_begins_anew(
    presage: Presage, log: str, patient: type[Patient], monkeypatch: pytest.MonkeyPatch
) -> None:
    call = ("synth", "train", log, "--model", "patient", "--out", "m")
    monkeypatch.setattr(patient, "interrupts", True)
    presage(*call)
    monkeypatch.setattr(patient, "interrupts", False)

    assert presage(*call, "--force", "--json").document["record"]["went_on_from"] == 0


def test_nothing_of_another_training_stays_beside_a_private_model(presage: Presage, log: str) -> None:
    pytest.importorskip("opacus")
    folder = Path("m")
    left = [folder / name for name in ("checkpoint.safetensors", "again-checkpoint.safetensors")]
    call = ("synth", "train", log, "--model", "tvae", "--set", "epochs=1", "--out", "m", "--dp-epsilon", "8")

    folder.mkdir()
    for each in left:
        each.write_text("learned without noise")
    for more in ((), ("--resume",)):
        refused = presage(*call, *more)
        assert refused.exit_code == 2
        assert "not a private one" in refused.err
        assert "--force" in refused.err
    assert all(each.exists() for each in left)

    assert presage(*call, "--force").exit_code == 0
    assert sorted(each.name for each in folder.iterdir()) == ["model.json", "weights.safetensors"]


def test_resuming_nothing_says_so_and_begins(presage: Presage, log: str, patient: type[Patient]) -> None:
    done = presage("synth", "train", log, "--model", "patient", "--out", "m", "--resume")

    assert done.exit_code == 0
    assert "begins anew" in done.err


@pytest.mark.slow
def test_a_signal_ends_a_training_of_a_network_without_loss(log: str, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    arguments = ["synth", "train", log, "--model", "tvae", "--out", str(tmp_path / "m"), "--set", "epochs=2000"]
    command = [sys.executable, "-m", "presage", *arguments]
    running = subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"}
    )
    kept = tmp_path / "m" / "checkpoint.safetensors"
    until = time.monotonic() + 240
    while not kept.exists() and running.poll() is None and time.monotonic() < until:
        time.sleep(0.05)
    running.send_signal(signal.SIGINT)
    told = running.communicate(timeout=30)[1]

    assert running.returncode == 130
    assert "--resume" in told
    assert "Traceback" not in told
    assert kept.exists()


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("train", "{log}", "--model", "lublim", "--out", "m"), 2, "Did you mean 'lublin'"),
        (("train", "{log}", "--model", "lublin", "--out", "m", "--set", "round=1"), 2, "'rounds'"),
        (("train", "{log}", "--model", "lublin", "--out", "m", "--set", "rounds"), 2, "is no pair"),
        (("train", "{log}", "--model", "lublin", "--out", "m", "--limit", "50"), 3, "at least 200"),
        (("train", "{log}", "--model", "lublin", "--out", "m", "--limit", "300", "--latest", "300"), 2, "one of"),
        (("train", "{log}", "--model", "lublin", "--out", "m", "--dp-epsilon", "8"), 2, "tvae, row-transformer"),
        (("train", "{log}", "--model", "lublin", "--out", "m", "--dp-delta", "1e-5"), 2, "--dp-epsilon"),
        (("train", "{log}", "--model", "lublin", "--out", "m", "--resume", "--force"), 2, "one of the two"),
        (("train", "{log}", "--model", "lublin", "--out", "{log}"), 7, "is a file"),
        (("train", "{log}", "--model", "lublin", "--out", "/dev/null/m"), 7, "cannot be written"),
        (("train", "nowhere.swf", "--model", "lublin", "--out", "m"), 3, "no file"),
        (("train", "{empty}", "--model", "lublin", "--out", "m"), 3, "is empty"),
        (("sample", ".", "--out", "s.parquet"), 3, "no synthesizer in"),
        (("sample", "{model}", "--out", "s.xyz"), 2, "--to"),
        (("sample", "{model}", "--out", "nowhere/s.parquet"), 2, "no folder"),
        (("sample", "{model}", "--out", "s.parquet", "--jobs", "3", "--days", "3"), 2, "one of the two"),
        (("sample", "{model}", "--out", "s.parquet", "--mix", "gpuu=.3"), 2, "Did you mean 'gpu'"),
        (("sample", "{model}", "--out", "s.parquet", "--mix", "gpu=.3"), 2, "no gpu jobs"),
        (("sample", "{model}", "--out", "s.parquet", "--mix", "wide=.3,wide=.2"), 2, "twice"),
        (("sample", "{model}", "--out", "s.parquet", "--mix", "wide=much"), 2, "is no share"),
        (("sample", "{model}", "--out", "s.parquet", "--start", "soon"), 2, "is no date"),
        (("sample", "{model}", "--out", "s.parquet", "--waits", "fcs"), 2, "Did you mean 'fcfs'"),
        (("sample", "{model}", "--out", "{log}", "--after", "{log}"), 2, "read and written at once"),
        (("sample", "{model}", "--out", "-", "--to", "csv", "--json"), 2, "cannot carry both"),
        (("sample", "{model}", "--out", "s.parquet", "--copies", "0"), 2, "cannot tell whether a job is a copy"),
        (("sample", "{model}", "--out", "s.parquet", "--copies", "2"), 2, "from 0 to 1"),
        (("report", "{log}", "nowhere.parquet"), 3, "no file"),
        (("report", "{log}", "{log}", "--out", "{log}"), 2, "read and written at once"),
        (("report", "{log}", "{log}", "--out", "nowhere/r.html"), 2, "no folder"),
        (("list", "lublim"), 2, "Did you mean 'lublin'"),
    ],
)
def test_wrong_calls_are_told_in_one_line_and_leave_nothing(
    presage: Presage, log: str, trained: str, tmp_path: Path, arguments: tuple[str, ...], code: int, words: str
) -> None:
    before = Path(log).read_bytes()
    (tmp_path / "empty.swf").touch()
    known = {"log": log, "model": trained, "empty": str(tmp_path / "empty.swf")}
    done = presage("synth", *(argument.format(**known) for argument in arguments))

    assert done.exit_code == code
    assert words in done.err
    assert "Traceback" not in done.err
    assert {each.name for each in tmp_path.iterdir()} <= {"empty.swf", "home"}
    assert Path(log).read_bytes() == before


def test_errors_are_one_document_too(presage: Presage, trained: str) -> None:
    done = presage("synth", "sample", trained, "--out", "s.parquet", "--load", "99", "--json")

    assert done.exit_code == 2
    assert done.document["error"]["code"] == "usage"


def test_what_is_not_installed_is_told_before_the_log_is_read(
    presage: Presage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("presage.synthesizers.find_spec", lambda _: None)
    done = presage("synth", "train", "nowhere.swf", "--model", "tvae", "--out", "m")

    assert done.exit_code == 4
    assert "pip install 'presage[torch]'" in done.err


def test_a_log_without_users_or_machine_is_told_and_learned(presage: Presage) -> None:
    rows = [{"submit_ms": 60_000 * place, "run_s": 60.0 + place % 7} for place in range(300)]
    from presage.testing.traces import make_trace

    make_trace(*rows).save("bare.parquet")
    done = presage("synth", "train", "bare.parquet", "--model", "lublin", "--out", "m")

    assert done.exit_code == 0
    assert "names no users" in done.err
    assert "how large its jobs are" in done.err
    refused = presage("synth", "sample", "m", "--out", "s.parquet", "--waits", "fcfs")
    assert refused.exit_code == 2
    assert "--waits" in refused.err


@pytest.mark.parametrize(
    ("column", "option", "other"),
    [("cpus_req", "--processors", "--nodes"), ("nodes_req", "--nodes", "--processors"),
     ("gpus_req", "--gpus", "--processors")],
)  # fmt: skip
def test_the_machine_is_said_in_what_jobs_are_counted_in(
    presage: Presage, column: str, option: str, other: str
) -> None:
    from presage.testing.traces import make_trace

    rows = [{"submit_ms": 60_000 * at, "run_s": 60.0 + at % 7, column: 1 + at % 8} for at in range(300)]
    make_trace(*rows).save("log.parquet")
    done = presage("synth", "train", "log.parquet", "--model", "copula", "--set", "rounds=8", "--out", "m")
    assert f"a load will need {option}" in done.err
    sample = ("synth", "sample", "m", "--out", "s.parquet", "--jobs", "50")
    refused = presage(*sample, other, "64")
    assert refused.exit_code == 2
    assert option in refused.err
    assert presage(*sample, "--load", "0.5").exit_code == 2
    assert presage(*sample, "--load", "0.5", option, "64").exit_code == 0
    told = presage("synth", "train", "log.parquet", "--model", "copula", "--set", "rounds=8", "--out", "n", option,
                   "64", "--json").document  # fmt: skip
    assert told["load"] > 0


def test_a_model_without_a_memory_says_what_becomes_of_the_jobs_before(
    presage: Presage, trained: str, log: str
) -> None:
    Trace.load(log).with_jobs(Trace.load(log).jobs.head(3)).save("few.parquet")
    done = presage("synth", "sample", trained, "--out", "s.parquet", "--jobs", "5", "--after", "few.parquet")

    assert done.exit_code == 0
    assert "remembers no jobs" in done.err


def test_report_prints_the_figures_that_decide(presage: Presage, log: str, trained: str) -> None:
    pytest.importorskip("lightgbm")
    presage("synth", "sample", trained, "--out", "s.parquet", "--seed", "1")
    done = presage("synth", "report", log, "s.parquet")

    assert done.exit_code == 0
    for words in ("(KS)", "by what came before (AUC)", "same user as the job before", "beyond their limit",
                  "learned from it", "copies of the log's", "mean bounded slowdown under fcfs+easy"):  # fmt: skip
        assert words in done.out
    assert "no later jobs" in done.err


def test_report_writes_a_page_and_tells_machines_everything(presage: Presage, log: str, trained: str) -> None:
    pytest.importorskip("matplotlib")
    presage("synth", "sample", trained, "--out", "s.parquet", "--seed", "1")
    call = ("synth", "report", log, "s.parquet", "--later", log, "--out", "report.html", "--load", "0.6", "--json")
    document = presage(*call).document

    assert document["output"] == "report.html"
    assert document["replay"]["load"] == 0.6
    assert set(document["natural"]) == set(document["likeness"])
    assert Path("report.html").read_text().lstrip().lower().startswith("<!doctype html")


@pytest.mark.parametrize("command", ["list", "train", "sample", "report"])
def test_help_teaches_by_example(presage: Presage, command: str) -> None:
    assert "Example: presage synth" in presage("synth", command, "--help").out


def test_help_of_sample_names_all_classes(presage: Presage) -> None:
    from presage.synthesizers.sampling import CLASSES

    text = presage("synth", "sample", "--help").out
    assert all(name in text for name in CLASSES)
