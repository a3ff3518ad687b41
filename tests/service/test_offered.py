"""Learned orders that an operator offers, and jobs that he wants first."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("numba")
pytest.importorskip("fastapi")

from presage.config import load_settings
from presage.errors import InputError, UnknownNameError, UsageError
from presage.learning.learned_policy import LearnedPolicy
from presage.policies.queue_scorer import OF_THE_JOB, QueueScorer
from presage.service.app import API
from presage.service.offered import OfferedPolicies, parse_places
from presage.service.queues import ScheduleRequest
from presage.service.scheduling import decide
from tests.service.conftest import Service

RUNS_S = {"slow": 9_000, "quick": 30, "middle": 900}
POOL = {"processors": 4, "now_s": 10}
NODES = {"nodes": [{"node_id": "n", "cores": 4}], "now_s": 10}


def longest_first(path: Path) -> Path:
    weights = np.zeros(len(OF_THE_JOB))
    weights[OF_THE_JOB.index("log_expected_run")] = -1.0
    LearnedPolicy("longest", QueueScorer(weights)).save(path)
    return path


def waiting(*urgent: str, on_nodes: bool = False) -> list[dict[str, Any]]:
    size = {"cores": 4} if on_nodes else {"processors": 4}
    return [
        {
            "job_id": name,
            "limit_s": 10_000,
            "submitted_s": at,
            "expected_s": run_s,
            "urgent": name in urgent,
            **size,
        }
        for at, (name, run_s) in enumerate(RUNS_S.items())
    ]


def order(
    offered: OfferedPolicies | None = None, *urgent: str, policy: str = "default", nodes: bool = False
) -> Any:
    machine = NODES if nodes else POOL
    request = ScheduleRequest.model_validate(
        {**machine, "waiting": waiting(*urgent, on_nodes=nodes), "policy": policy}
    )
    return [each.job_id for each in decide(request, offered or OfferedPolicies())[1]]


@pytest.mark.parametrize("nodes", [False, True])
@pytest.mark.parametrize(
    ("policy", "rest"), [("default", ["quick", "middle"]), ("index+none", ["quick", "middle"]),
                         ("sjf+easy", ["quick", "middle"]), ("fcfs", ["quick", "middle"]),
                         ("wfp3+easy", ["quick", "middle"])]
)  # fmt: skip
def test_urgent_jobs_go_first_whatever_the_policy(policy: str, rest: list[str], nodes: bool) -> None:
    assert order(None, "slow", policy=policy, nodes=nodes) == ["slow", *rest]
    assert order(None, "middle", policy=policy, nodes=nodes)[0] == "middle"


def test_urgent_jobs_go_before_those_that_the_guard_calls() -> None:
    late = {"job_id": "late", "processors": 4, "limit_s": 10_000, "submitted_s": 0, "expected_s": 9_000}
    others = [{**each, "submitted_s": 299_990 + at} for at, each in enumerate(waiting("middle"))]
    request = {"processors": 4, "now_s": 300_000, "waiting": [late, *others], "policy": "default"}
    _, decisions, _ = decide(ScheduleRequest.model_validate(request))
    assert [each.job_id for each in decisions] == ["middle", "late", "quick", "slow"]


def test_an_urgent_job_that_does_not_fit_yet_is_kept_its_place() -> None:
    running = [{"job_id": "r", "processors": 3, "started_s": 0, "limit_s": 100}]
    jobs = [{**waiting("slow")[0]}, {"job_id": "slim", "processors": 1, "limit_s": 500, "submitted_s": 0}]
    request = {**POOL, "running": running, "waiting": jobs, "policy": "sjf+easy"}
    found = {each.job_id: each.start_s for each in decide(ScheduleRequest.model_validate(request))[1]}
    assert found == {"slow": 100.0, "slim": 10_100.0}


def test_backfillings_that_cannot_let_urgent_jobs_first_say_so() -> None:
    assert order(policy="sjf+conservative") == ["quick", "middle", "slow"]
    with pytest.raises(UsageError, match="conservative"):
        order(None, "slow", policy="sjf+conservative")


def test_a_policy_that_is_offered_is_asked_by_its_name_alone(service: Service, tmp_path: Path) -> None:
    place = longest_first(tmp_path / "longest.safetensors")
    object.__setattr__(service.state, "policies", OfferedPolicies({"ours": place}))
    headers = service.headers("ann")

    def ask(policy: str) -> Any:
        document = {**POOL, "waiting": waiting(), "policy": policy}
        return service.client.post(f"{API}/schedule", json=document, headers=headers)

    answer = ask("ours").json()
    assert answer["policy"] == "ours+easy"
    assert [each["job_id"] for each in answer["decisions"]] == ["slow", "middle", "quick"]
    for path in (str(place), str(tmp_path), "longest.safetensors"):
        assert ask(path).status_code == 422
    listed = service.client.get(f"{API}/policies", headers=headers).json()["learned"]
    assert [each["name"] for each in listed] == ["default", "index", "ours"]


def test_nobody_else_can_name_it() -> None:
    with pytest.raises(UnknownNameError):
        order(policy="ours")


def test_a_store_is_followed_and_what_is_damaged_does_not_stop_the_service(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = tmp_path / "store"
    store.mkdir()
    offered = OfferedPolicies({"ours": store})
    assert order(offered, policy="ours") == ["quick", "middle", "slow"]
    longest_first(store / "0001.safetensors")
    (store / "store.json").write_text(json.dumps({"current": "0001", "attempts": []}))
    assert order(offered, policy="ours") == ["slow", "middle", "quick"]
    (store / "store.json").write_text("{")
    with caplog.at_level(logging.WARNING):
        assert order(offered, policy="ours") == ["slow", "middle", "quick"]
    assert "stays in use" in caplog.text
    (store / "store.json").unlink()
    assert order(offered, policy="ours") == ["slow", "middle", "quick"]
    with pytest.raises(InputError, match="holds no policies"):
        OfferedPolicies({"ours": store})


@pytest.mark.parametrize("name", ["default", "sjf", "Ours", "a b", "x@y", "x+y", ""])
def test_names_that_nobody_could_say_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match="offered"):
        OfferedPolicies({name: longest_first(tmp_path / "longest.safetensors")})


def test_places_are_written_in_settings_or_as_options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert parse_places(["a=x.safetensors", "b=/srv/c=d"]) == {"a": Path("x.safetensors"), "b": Path("/srv/c=d")}
    for text in ("a", "a=", "x.safetensors"):
        with pytest.raises(UsageError, match="NAME=FILE"):
            parse_places([text])
    with pytest.raises(InputError, match="no policy"):
        OfferedPolicies({"ours": tmp_path / "nothing.safetensors"})
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    Path("presage.toml").write_text('[service.policies]\nours = "/srv/policies"\n')
    assert load_settings().service.policies == {"ours": Path("/srv/policies")}
    monkeypatch.setenv("PRESAGE_SERVICE__POLICIES__THEIRS", "t.safetensors")
    assert load_settings().service.policies["theirs"] == Path("t.safetensors")
