from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

from presage.estimators import Basis, Estimate, Quantity, Spread
from presage.estimators.plugins import write_request
from presage.estimators.refits.kinds import kind_of
from presage.estimators.repository import Repository
from presage.testing.estimators import make_script_request, make_training_request
from tests.cli.conftest import Presage

CONTAINERS = Path(__file__).parents[2] / "containers"
ROOFLINE, MEMORY = CONTAINERS / "roofline-walltime", CONTAINERS / "peak-memory"


@pytest.fixture
def request_file(tmp_path: Path) -> Path:
    path = tmp_path / "request.json"
    path.write_bytes(write_request(make_training_request(Quantity.MEMORY)))
    return path


def variant(folder: Path, out: Path, version: str) -> Path:
    """Write another version of a reference estimator."""
    out.mkdir()
    for file in ("estimator.py", "estimator.toml"):
        (out / file).write_text((folder / file).read_text().replace("1.0.0", version))
    return out


def test_an_estimator_is_added_and_shown(presage: Presage) -> None:
    added = presage("estimators", "add", ROOFLINE)
    assert (added.exit_code, added.out) == (0, "roofline-walltime 1.0.0 is in the shadow\n")
    assert "presage estimators score roofline-walltime" in added.err
    listed = presage("estimators", "list", "--json").document
    assert listed[0] == {
        "name": "roofline-walltime", "version": "1.0.0", "quantity": "walltime", "kind": "program",
        "state": "shadow", "pinned": False, "summary": "time of a training by a plain roofline of its operators",
    }  # fmt: skip
    assert {"name": "charge", "state": "in-charge"}.items() <= listed[-1].items()
    assert "roofline-walltime" in presage("estimators", "list").out
    shown = presage("estimators", "show", "roofline-walltime", "--json").document
    assert shown["files_are_as_added"] is True
    assert (shown["entrypoint"], shown["changes"]) == (["python3", "-I", "estimator.py"], [])
    assert "python3 -I estimator.py" in presage("estimators", "show", "roofline-walltime").out


def test_versions_are_pinned_rolled_back_and_removed(presage: Presage, tmp_path: Path) -> None:
    assert presage("estimators", "add", MEMORY, "--now").out == "peak-memory 1.0.0 is in charge\n"
    presage("estimators", "add", variant(MEMORY, tmp_path / "newer", "1.1.0"))
    pinned = presage("estimators", "pin", "peak-memory", "1.1.0", "--json").document
    assert (pinned["version"], pinned["state"], pinned["pinned"]) == ("1.1.0", "in-charge", True)
    refused = presage("estimators", "score", "peak-memory", "--take-over")
    assert refused.exit_code == 2
    assert "pinned to 1.1.0" in refused.err
    assert presage("estimators", "pin", "peak-memory", "--off").out == "peak-memory 1.1.0 is in charge\n"
    assert presage("estimators", "rollback", "peak-memory").out == "peak-memory 1.0.0 is in charge again\n"
    assert presage("estimators", "remove", "peak-memory", "1.0.0").exit_code == 2
    assert presage("estimators", "rollback", "peak-memory", "--json").document["in_charge"] is None
    assert presage("estimators", "remove", "peak-memory", "1.0.0").out == "peak-memory 1.0.0 is removed\n"
    shown = presage("estimators", "show", "peak-memory").out
    assert "rolled back from 1.1.0" in shown
    assert presage("estimators", "show", "peak-memory", "--version", "1.0.0").exit_code == 2


def test_a_plug_in_is_tried_without_being_added(
    presage: Presage, request_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = presage("estimators", "run", MEMORY, request_file, "--json").document
    assert (answer["estimator"], answer["basis"], answer["unit"]) == (
        "peak-memory",
        "modelled, unverified",
        "bytes",
    )
    assert answer["p50"] == (3584 + 500) * 2**20
    readable = presage("estimators", "run", MEMORY, request_file)
    assert "3.988 GiB" in readable.out
    assert "10% of headroom" in readable.out
    assert all(each["name"] != "peak-memory" for each in presage("estimators", "list", "--json").document)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(request_file.read_bytes())))
    presage("estimators", "add", MEMORY)
    assert presage("estimators", "run", "peak-memory", "-", "--json").document == answer


def test_a_request_without_an_answer_says_why(presage: Presage, request_file: Path, tmp_path: Path) -> None:
    refused = presage("estimators", "run", ROOFLINE, request_file, "--json")
    assert refused.exit_code == 3
    assert refused.document["error"]["code"] == "unsupported"
    assert "it estimates walltime, not memory" in refused.err
    (tmp_path / "wrong.json").write_text('{"api": 1, "quantity": "joy"}')
    wrong = presage("estimators", "run", MEMORY, tmp_path / "wrong.json")
    assert wrong.exit_code == 3
    assert "quantity" in wrong.err
    assert presage("estimators", "run", MEMORY, tmp_path / "missing.json").exit_code == 3
    assert presage("estimators", "run", MEMORY, tmp_path).exit_code == 3


def test_predictions_are_scored_by_outcomes(presage: Presage, tmp_path: Path) -> None:
    presage("estimators", "add", MEMORY)
    repository = Repository()
    for number in range(3):
        request = make_training_request(Quantity.MEMORY)
        given = Estimate(Quantity.MEMORY, Spread.around(2**33, 1.1), Basis.MODELLED, "training-memory", "1")
        repository.follow(request, given, job_key=f"lab/{number}")
        told = presage("estimators", "outcome", f"lab/{number}", "memory", "4GiB")
        assert told.out == "Recorded; 1 prediction of it known\n"
    (compared,) = presage("estimators", "score", "--json").document
    assert (compared["outcomes"], compared["needed"], compared["takes_over"]) == (3, 20, False)
    assert compared["in_charge"]["median_ratio_error"] == pytest.approx(1.0)
    assert compared["candidate"]["median_ratio_error"] < 0.01
    readable = presage("estimators", "score", "peak-memory", "--needed", "3", "--take-over").out
    assert "peak-memory 1.0.0 may take over: no worse on 3 outcomes" in readable
    assert presage("estimators", "score").out == "No estimator is in the shadow\n"
    kept = presage("estimators", "predictions", "--json").document
    assert len(kept["predictions"]) == 6
    assert {(each["estimator"], each["role"], each["count"]) for each in kept["accuracy"]} == {
        ("training-memory", "in-charge", 3), ("peak-memory", "replayed", 3),
    }  # fmt: skip
    shown = presage("estimators", "predictions", "--job", "lab/1").out
    assert "lab/1" in shown
    assert "lab/2" not in shown
    assert "4 GiB" in shown


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("add", "nowhere"), "There is nothing at 'nowhere'"),
        (("add", "http://127.0.0.1:9/", "--quantity", "joy"), "no quantity named 'joy'"),
        (("add", str(MEMORY), "--runner", "docker"), "no runner of containers named 'docker'"),
        (("show", "nothing"), "no estimator in the repository named 'nothing'"),
        (("pin", "nothing"), "not clear what to pin"),
        (("rollback", "nothing"), "named 'nothing'"),
        (("remove", "nothing", "1"), "named 'nothing'"),
        (("score", "nothing"), "named 'nothing'"),
        (("score", "--version", "1"), "without a NAME"),
        (("predictions", "--quantity", "joy"), "no quantity named 'joy'"),
        (("outcome", "job", "wait", "long"), "'long'"),
        (("outcome", "job", "cost", "much"), "'much' is no amount"),
        (("outcome", "job", "cost", "-1"), "No such option"),
        (("outcome", "", "cost", "1"), "cannot be the key of a job"),
        (("run", "nowhere", "request.json"), "cannot be read"),
    ],
)
def test_a_wrong_call_says_so(words: tuple[str, ...], said: str, presage: Presage) -> None:
    failed = presage("estimators", *words)
    assert failed.exit_code in (2, 3)
    assert said in failed.err


def test_an_empty_repository_is_no_error(presage: Presage) -> None:
    assert presage("estimators", "predictions", "--json").document == {"predictions": [], "accuracy": []}
    assert presage("estimators", "score", "--json").document == []
    assert json.loads(presage("estimators", "list", "--json").out)


def test_an_outcome_may_come_before_its_prediction(presage: Presage) -> None:
    assert presage("estimators", "outcome", "lab/9", "wait", "2:30:00").out.startswith("Recorded; 0 predictions")
    repository = Repository()
    answer = Estimate(Quantity.WAIT, Spread(1, 2, 3), Basis.STATED, "stated-wait", "1")
    repository.follow(make_script_request(Quantity.WAIT), answer, job_key="lab/9")
    (kept,) = presage("estimators", "predictions", "--json").document["predictions"]
    assert kept["actual"] == 9000


def test_what_was_learned_from_jobs_is_shown_and_rolled_back(presage: Presage) -> None:
    repository = Repository()
    request = make_training_request(Quantity.WALLTIME)
    answer = Estimate(Quantity.WALLTIME, Spread(90, 100, 110), Basis.MODELLED, "training-walltime", "1")
    for number in range(20):
        repository.predictions.store(request, answer, job_key=str(number))
        repository.predictions.record_outcome(str(number), Quantity.WALLTIME, 150.0)
    kind = kind_of(request)
    assert kind is not None
    repository.refits.consider(kind, Quantity.WALLTIME)
    (told,) = presage("estimators", "refits", "--json").document
    assert (told["took_over"], told["fitted_on"], told["place"]) == (True, 13, "example/gpu-node (GPU)")
    assert "1.46" in presage("estimators", "refits").out
    listed = presage("estimators", "list", "--json").document[0]
    assert (listed["name"], listed["kind"], listed["state"]) == ("refitted-walltime", "fitted", "in-charge")
    assert "better on the latest 7 jobs" in presage("estimators", "show", "refitted-walltime").out
    back = presage("estimators", "rollback", "refitted-walltime")
    assert back.out == "No version of refitted-walltime is in charge any more\n"
