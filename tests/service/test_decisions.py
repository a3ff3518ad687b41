"""The endpoints that compute something, with answers that were computed by hand."""

from __future__ import annotations

import json
import statistics
import time
from typing import Any

import pytest

from presage.service.app import API
from presage.service.state import Seats
from tests.service.conftest import Service

pytest.importorskip("numba")


def post(service: Service, path: str, document: dict[str, Any]) -> Any:
    answer = service.client.post(f"{API}{path}", json=document, headers=service.headers("ann"))
    assert answer.status_code == 200, answer.text
    return answer.json()


def job(job_id: str, processors: int, limit_s: float, submitted_s: float) -> dict[str, Any]:
    return {"job_id": job_id, "processors": processors, "limit_s": limit_s, "submitted_s": submitted_s}


# 10 processors; one job holds 6 of them until 1,100. `wide` needs 8 and can begin then; 2 stay free beside it.
QUEUE = {
    "processors": 10,
    "now_s": 1000,
    "running": [{"job_id": "r", "processors": 6, "limit_s": 500, "started_s": 600}],
    "waiting": [
        job("wide", 8, 300, 900),
        job("long", 3, 200, 910),
        job("short", 3, 100, 920),
        job("slim", 2, 5000, 930),
        job("huge", 11, 10, 940),
    ],
}


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        # Nobody passes `wide`; the others follow strictly: `long` when `wide` ends, all of them fit then.
        ("fcfs", {"wide": 1100, "long": 1400, "short": 1400, "slim": 1400}),
        # `short` ends as `wide` begins. `slim` (2) would not fit beside `short` now, and does beside `wide`.
        ("fcfs+easy", {"short": 1000, "wide": 1100, "slim": 1100, "long": 1400}),
        # The shortest: short now; long does not fit and nobody passes it.
        ("sjf", {"short": 1000, "long": 1100, "wide": 1300, "slim": 1300}),
    ],
)
def test_a_queue_is_decided(service: Service, policy: str, expected: dict[str, float]) -> None:
    answer = post(service, "/schedule", {**QUEUE, "policy": policy})
    starts = {each["job_id"]: each["start_s"] for each in answer["decisions"] if each["action"] != "refuse"}
    assert starts == expected
    assert list(starts.values()) == sorted(starts.values())
    begun = {each["job_id"] for each in answer["decisions"] if each["action"] == "start"}
    assert begun == {name for name, start_s in expected.items() if start_s == 1000}
    refused = {"job_id": "huge", "action": "refuse", "processors": 11, "nodes": None, "start_s": None}
    assert answer["decisions"][-1] == refused
    assert answer["free_processors"] == 4 - (3 if begun else 0)
    assert answer["policy"] == policy


def test_queues_that_cannot_be_are_refused(service: Service) -> None:
    twice = [*QUEUE["waiting"], QUEUE["waiting"][0]]  # type: ignore[misc]  # a list
    full = [{"job_id": "r", "processors": 11, "limit_s": 500, "started_s": 600}]
    for changes in ({"waiting": twice}, {"running": full}, {"policy": "nobody"}, {"policy": "sjf+"}):
        answer = service.client.post(f"{API}/schedule", json={**QUEUE, **changes}, headers=service.headers("ann"))
        assert answer.status_code == 422, changes
    empty = post(service, "/schedule", {"processors": 4, "now_s": 0, "waiting": []})
    assert empty["decisions"] == []


def test_a_hundred_waiting_jobs_are_decided_at_once(service: Service) -> None:
    waiting = [job(str(number), 1 + number % 7, 60 + 37 * (number % 11), number) for number in range(100)]
    document = {"processors": 16, "now_s": 1000, "waiting": waiting, "policy": "sjf+easy"}
    times_ms = []
    for _ in range(15):
        begin = time.perf_counter()
        post(service, "/schedule", document)
        times_ms.append((time.perf_counter() - begin) * 1000)
    assert statistics.median(times_ms) < 250  # a few milliseconds on an idle machine


def test_stated_times_are_planned(service: Service) -> None:
    document = {
        "name": "hour",
        "systems": ["osc-pitzer"],
        "walltimes_s": {"*": 3600},
        "waits_s": {"*": {"p10": 600, "p50": 600, "p90": 600}},
        "memory_bytes": 1 << 30,
    }
    plans = post(service, "/plans", document)
    fitting = [each for each in plans["options"] if each["fits"]]
    assert fitting
    assert {each["walltime"]["p50"] for each in fitting} == {3600}
    assert {each["wait"]["p50"] for each in fitting} == {600}
    assert min(each["completion_s"]["p50"] for each in fitting) >= 4200
    late = post(service, "/plans", {**document, "deadline_s": 60})
    assert not any(each["fits"] for each in late["options"])
    for wrong in (
        {"systems": ["nowhere"]},
        {"walltimes_s": {}},
        {"waits_s": {"*": {"p10": 3, "p50": 2, "p90": 1}}},
    ):
        answer = service.client.post(f"{API}/plans", json={**document, **wrong}, headers=service.headers("ann"))
        assert answer.status_code == 422, wrong


def rows(number: int) -> list[dict[str, Any]]:
    """Return jobs of 2 processors and 100 s, one every 50 s, each of which waited 10 s."""
    return [
        {
            "job_id": str(index), "submit_ms": index * 50_000, "start_ms": index * 50_000 + 10_000,
            "end_ms": index * 50_000 + 110_000, "wait_s": 10.0, "run_s": 100.0, "limit_s": 200.0,
            "cpus_alloc": 2.0, "user": f"u{index % 3}", "outcome": "completed",
        }
        for index in range(number)
    ]  # fmt: skip


def test_forecasts_of_rows_and_of_text_are_the_same(service: Service) -> None:
    jobs = rows(60)
    text = "".join(json.dumps(row) + "\n" for row in jobs)
    by_rows = post(service, "/forecasts", {"log": {"rows": jobs, "processors": 8}, "ask": ["cpus=2, limit=200s"]})
    by_text = post(service, "/forecasts", {"log": {"text": text, "processors": 8}, "ask": ["cpus=2, limit=200s"]})
    assert by_rows == by_text
    (asked,) = by_rows["jobs"]
    assert asked["stands"] == "new"
    assert asked["run_s"]["p10"] <= asked["run_s"]["p50"] <= asked["run_s"]["p90"]
    assert by_rows["log"]["jobs"] == 60


def test_a_machine_of_half_the_size_makes_jobs_wait(service: Service) -> None:
    document = {"log": {"rows": rows(40), "processors": 4}, "variants": ["processors=2"], "policy": "fcfs"}
    answer = post(service, "/whatif", document)
    # As it is, two jobs run at a time and nobody waits. With 2 processors, job i starts at 100 i and waits 50 i.
    assert answer["baseline"]["mean_wait_s"] == 0
    assert answer["variants"][0]["metrics"]["mean_wait_s"] == pytest.approx(50 * 19.5)


def test_anomalies_tell_what_could_not_be_looked_for(service: Service) -> None:
    report = post(service, "/anomalies", {"log": {"rows": rows(40)}})
    assert report["jobs"] == 40
    assert report["findings"] == []
    assert {each["kind"] for each in report["skipped"]}.isdisjoint(report["ran"])
    unknown = {"log": {"rows": rows(3)}, "kinds": ["ghosts"]}
    answer = service.client.post(f"{API}/anomalies", json=unknown, headers=service.headers("ann"))
    assert answer.status_code == 422


def test_policies_and_models_are_listed(service: Service) -> None:
    headers = service.headers("ann")
    listed = service.client.get(f"{API}/policies", headers=headers).json()
    assert {"fcfs", "sjf"} <= {each["name"] for each in listed["orders"]}
    assert {"easy"} <= {each["name"] for each in listed["backfillings"]}
    (model,) = service.client.get(f"{API}/models", headers=headers).json()["models"]
    assert model["forecasts"] == ["wait", "run"]


def test_only_so_many_compute_at_once(service: Service) -> None:
    seats = Seats(most=2, of_one=1)
    object.__setattr__(service.state, "computing", seats)
    with seats.taken("ann"):
        answer = service.client.post(f"{API}/schedule", json=QUEUE, headers=service.headers("ann"))
        assert (answer.status_code, answer.headers["retry-after"]) == (429, "1")
        other = service.client.post(f"{API}/schedule", json=QUEUE, headers=service.headers("bob"))
        assert other.status_code == 200
    post(service, "/schedule", QUEUE)
