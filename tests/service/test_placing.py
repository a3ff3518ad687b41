"""Decisions on nodes: `POST /schedule` with a machine of nodes."""

from __future__ import annotations

import statistics
import time
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("numba")
pytest.importorskip("fastapi")

from presage.service.app import API
from presage.service.queues import NODES_EXAMPLE, POOL_EXAMPLE, Decision, ScheduleRequest
from presage.service.scheduling import decide
from presage.simulator.next_placements import NodesNow, next_placements
from presage.simulator.nodes import ANY_TYPE, Nodes, PlacedJobs
from presage.simulator.placed import PlacedPolicy, schedule_placed
from tests.service.conftest import Service

GIB = 1 << 30


def node(name: str, cores: int, **more: Any) -> dict[str, Any]:
    return {"node_id": name, "cores": cores, **more}


def job(name: str, cores: int, limit_s: float, submitted_s: float, **more: Any) -> dict[str, Any]:
    return {"job_id": name, "cores": cores, "limit_s": limit_s, "submitted_s": submitted_s, **more}


def decided(**request: Any) -> dict[str, Decision]:
    decisions = decide(ScheduleRequest.model_validate({"now_s": 1000, **request}))[1]
    return {each.job_id: each for each in decisions}


# Two nodes of 8 cores; 6 of the first are held until 1,100. `wide` needs both of them whole, at 1,100.
TWO = {
    "nodes": [node("a", 8), node("b", 8)],
    "running": [{"job_id": "r", "cores": 6, "limit_s": 500, "started_s": 600, "nodes": ["a"]}],
    "waiting": [
        job("wide", 8, 300, 900, tasks=2),
        job("long", 2, 5000, 910),
        job("short", 4, 100, 920, tasks=2),
        job("huge", 9, 10, 930),
    ],
}


@pytest.mark.parametrize(
    ("policy", "starts", "places"),
    [
        # Nobody passes `wide`.
        ("fcfs", {"wide": 1100, "long": 1400, "short": 1400}, {}),
        # `short` ends as `wide` begins; its tasks do not fit on a, where 2 cores are free. `long` must wait.
        ("fcfs+easy", {"short": 1000, "wide": 1100, "long": 1400}, {"short": ["b", "b"]}),
        # Nothing is reserved: `long` goes to the first with room, `short` to b. Both whole nodes at 6,000.
        ("fcfs+skip", {"long": 1000, "short": 1000, "wide": 6000}, {"long": ["a"], "short": ["b", "b"]}),
        # The emptiest node for `long`, and then 4 + 4 cores are nowhere together before `r` ends.
        ("fcfs+skip@worst-fit", {"long": 1000, "short": 1100, "wide": 6000}, {"long": ["b"]}),
    ],
)
def test_a_queue_is_placed(policy: str, starts: dict[str, float], places: dict[str, list[str]]) -> None:
    found = decided(**TWO, policy=policy)
    assert {name: each.start_s for name, each in found.items() if each.action != "refuse"} == starts
    assert {name: each.nodes for name, each in found.items() if each.nodes is not None} == places
    assert found["huge"].action == "refuse"
    assert list(found)[:3] == sorted(starts, key=lambda name: (starts[name], list(found).index(name)))


def test_memory_gpus_and_their_types_and_what_others_use_are_looked_at() -> None:
    nodes = [
        node("cpu", 64, memory_bytes=512 * GIB),
        node("old", 16, memory_bytes=64 * GIB, gpus=4, gpu_type="v100"),
        node("new", 16, memory_bytes=64 * GIB, gpus=4, gpu_type="h100", used_gpus=3, used_memory_bytes=32 * GIB),
    ]
    running = [{"job_id": "r", "cores": 1, "gpus": 3, "limit_s": 900, "started_s": 600, "nodes": ["old"]}]
    waiting = [
        job("any", 1, 100, 10, gpus=1),
        job("h100", 1, 100, 20, gpus=1, gpu_type="h100"),
        job("two", 1, 100, 30, gpus=2),
        job("never", 1, 100, 40, gpus=2, gpu_type="h100"),
        job("unknown", 1, 100, 50, gpus=1, gpu_type="b200"),
        job("much", 1, 100, 60, memory_bytes=65 * GIB),
        job("more", 1, 100, 70, memory_bytes=513 * GIB),
    ]
    found = decided(nodes=nodes, running=running, waiting=waiting, policy="fcfs+skip")
    starts = {name: (each.start_s, each.nodes) for name, each in found.items() if each.action == "start"}
    assert starts == {"any": (1000, ["old"]), "h100": (1000, ["new"]), "much": (1000, ["cpu"])}
    assert found["two"].start_s == 1500
    assert {name for name, each in found.items() if each.action == "refuse"} == {"never", "unknown", "more"}


@pytest.mark.parametrize(
    "changes",
    [
        {"processors": 4},
        {"nodes": [node("a", 8), node("a", 8)]},
        {"nodes": [node("a", 8, used_cores=9)]},
        {"nodes": []},
        {"waiting": [{"job_id": "x", "processors": 3, "limit_s": 1, "submitted_s": 1}]},
        {"running": [{"job_id": "r", "cores": 9, "limit_s": 1, "started_s": 1, "nodes": ["a"]}]},
        {"running": [{"job_id": "r", "cores": 1, "limit_s": 1, "started_s": 1, "nodes": ["c"]}]},
        {"running": [{"job_id": "r", "cores": 1, "limit_s": 1, "started_s": 1}]},
        {"waiting": [job("x", 1, 1, 1, tasks=100_000), job("y", 1, 1, 1, tasks=100_000), job("z", 1, 1, 1)]},
        {"policy": "fcfs+conservative"},
        {"policy": "fcfs+easy@"},
        {"policy": "default+nothing"},
        {"policy": "/etc/passwd"},
        {"policy": "../default.safetensors"},
    ],
)
def test_machines_and_queues_that_cannot_be_are_refused(service: Service, changes: dict[str, Any]) -> None:
    answer = service.client.post(
        f"{API}/schedule", json={"now_s": 1000, **TWO, **changes}, headers=service.headers("ann")
    )
    assert answer.status_code == 422, answer.text
    assert "root:" not in answer.text


def test_the_examples_of_the_reference_are_answered(service: Service) -> None:
    schema = service.client.get(f"{API}/openapi.json").json()["components"]["schemas"]["ScheduleRequest"]
    assert schema["examples"] == [POOL_EXAMPLE, NODES_EXAMPLE]
    for example in schema["examples"]:
        answer = service.client.post(f"{API}/schedule", json=example, headers=service.headers("ann"))
        assert answer.status_code == 200, answer.text
    assert [(each["job_id"], each["nodes"]) for each in answer.json()["decisions"]] == [
        ("train", ["n1"]), ("flow", None)
    ]  # fmt: skip
    assert answer.json()["free_processors"] == 128 - 32 - 16
    assert answer.json()["policy"] == "sjf+easy@best-fit"


CORES = 4
AMOUNTS = st.tuples(st.integers(1, 3), st.integers(1, CORES), st.integers(0, 2), st.integers(0, 4))
JOBS = st.lists(st.tuples(AMOUNTS, st.integers(1, 50), st.integers(0, 100)), min_size=1, max_size=12)
POLICIES = st.sampled_from(
    [
        "fcfs",
        "sjf+easy",
        "saf+skip@best-fit",
        "wfp3+easy@worst-fit",
        "lxf",
        "f1+easy@rack-packing",
        "default",
        "index+none",
    ]
)


def requested(jobs: Any, policy: str) -> dict[str, Any]:
    """Return a queue of such jobs on three nodes; the first three of them run already, where they fit."""
    nodes = [node(name, CORES, gpus=2, memory_bytes=4 * GIB, rack=name[0]) for name in ("x1", "x2", "y1")]
    left = {each["node_id"]: Counter(cores=CORES, gpus=2, memory_bytes=4) for each in nodes}
    running, waiting = [], []
    for number, ((tasks, cores, gpus, memory), limit_s, submitted_s) in enumerate(jobs):
        wants = {"cores": cores, "gpus": gpus, "memory_bytes": memory * GIB}
        common = {"job_id": str(number), **wants, "limit_s": limit_s}
        place = next(
            (
                name
                for name, has in left.items()
                if has["cores"] >= cores and has["gpus"] >= gpus and has["memory_bytes"] >= memory
            ),
            None,
        )
        if number < 3 and place is not None:
            left[place].subtract(cores=cores, gpus=gpus, memory_bytes=memory)
            running.append({**common, "started_s": submitted_s, "nodes": [place]})
        else:
            waiting.append({**common, "tasks": tasks, "submitted_s": submitted_s, "expected_s": 1 + limit_s / 2})
    return {"nodes": nodes, "now_s": 100, "running": running, "waiting": waiting, "policy": policy}


@given(JOBS, POLICIES)
@settings(max_examples=60)
def test_no_node_holds_more_than_it_has_and_decisions_are_the_same_again(jobs: Any, policy: str) -> None:
    document = requested(jobs, policy)
    request = ScheduleRequest.model_validate(document)
    _, decisions, _ = decide(request)
    assert decisions == decide(request)[1]
    assert sorted(each.job_id for each in decisions) == sorted(each.job_id for each in request.waiting)
    used: Counter[tuple[str, str]] = Counter()
    wants = {each.job_id: each for each in [*request.running, *request.waiting]}
    begun = [(each.job_id, each.nodes) for each in decisions if each.action == "start"]
    for job_id, places in [*((each.job_id, each.nodes) for each in request.running), *begun]:
        want = wants[job_id]
        assert places is not None
        assert len(places) == want.tasks
        for place in places:
            used.update(
                {(place, "cores"): want.cores, (place, "gpus"): want.gpus, (place, "memory"): want.memory_bytes}
            )
    most = {"cores": CORES, "gpus": 2, "memory": 4 * GIB}
    assert all(amount <= most[what] for (_, what), amount in used.items())
    starts = [each.start_s for each in decisions if each.start_s is not None]
    assert starts == sorted(starts)
    assert all(start_s >= 100 for start_s in starts)


@given(JOBS, st.sampled_from(["fcfs", "sjf", "saf"]))
@settings(max_examples=40)
def test_without_backfilling_jobs_go_in_the_order_of_the_rule(jobs: Any, rule: str) -> None:
    request = ScheduleRequest.model_validate(requested(jobs, rule))
    wants = {each.job_id: each for each in request.waiting}
    counts_gpus = any(each.gpus for each in [*request.running, *request.waiting])

    def score(job_id: str) -> tuple[float, float, int]:
        want = wants[job_id]
        area = max(want.tasks * (want.gpus if counts_gpus else want.cores), 1) * round(
            (want.expected_s or 0) * 1000
        )
        first = {"fcfs": want.submitted_s, "sjf": min(want.expected_s or 0, want.limit_s), "saf": area}[rule]
        return first, want.submitted_s, int(job_id)

    order = [each.job_id for each in decide(request)[1] if each.action != "refuse"]
    if all((each.expected_s or 0) <= each.limit_s for each in request.waiting):
        assert order == sorted(order, key=score)


@given(JOBS, st.sampled_from(["fcfs", "sjf+easy@best-fit", "wfp3+easy", "saf+skip@worst-fit"]))
@settings(max_examples=40)
def test_on_an_empty_machine_it_is_the_schedule_of_the_simulator(jobs: Any, policy: str) -> None:
    from presage.simulator.jobs import Jobs

    nodes = Nodes(
        *(np.array(each, np.int64) for each in ([4000] * 3, [4] * 3, [2] * 3, [1] * 3, [0] * 3, [0, 0, 1]))
    )
    kept = [each for each in jobs if each[0][0] * each[0][1] <= 2 * CORES and each[0][3] <= 2 and each[0][2] <= 1]
    count = len(kept)
    tasks, cores, gpus, memory = (np.array([each[0][at] for each in kept], np.int64) for at in range(4))
    tasks = np.minimum(tasks, 2)
    length_ms = np.array([1000 * each[1] for each in kept], np.int64)
    now_ms, zeros = 500_000, np.zeros(count, np.int64)
    base = Jobs(zeros + now_ms, length_ms, length_ms, length_ms, length_ms, tasks * cores)
    waiting = PlacedJobs(base, tasks, cores * 1000, memory, gpus, zeros, zeros + ANY_TYPE, zeros)
    nobody = waiting.select(np.arange(0))
    machine = NodesNow(now_ms, nodes, nobody, np.empty(0, np.int64))
    found = next_placements(machine, waiting, PlacedPolicy.parse(policy))
    if count:
        expected = schedule_placed(waiting, nodes, PlacedPolicy.parse(policy))
        for name in ("start_ms", "first", "node", "gpus"):
            assert getattr(found, name).tolist() == getattr(expected, name).tolist()


def test_a_learned_order_goes_by_forecasts_also_on_a_pool() -> None:
    waiting = [
        {"job_id": name, "processors": 4, "limit_s": 10_000, "submitted_s": at, "expected_s": expected_s}
        for at, (name, expected_s) in enumerate([("slow", 9_000), ("quick", 30), ("middle", 900)])
    ]
    for policy in ("default", "index", "sjf"):
        found = decided(processors=4, waiting=waiting, policy=policy)
        assert list(found) == ["quick", "middle", "slow"], policy
        assert found["quick"].nodes is None
    on_nodes = [{**each, "processors": None, "cores": 4} for each in waiting]
    name, decisions, _ = decide(
        ScheduleRequest(
            now_s=10, nodes=[{"node_id": "n", "cores": 4}], waiting=on_nodes, policy="Default@best-fit"
        )
    )
    assert name == "default+easy@best-fit"
    assert [each.job_id for each in decisions] == ["quick", "middle", "slow"]
    assert decisions[0].nodes == ["n"]


def test_a_hundred_waiting_jobs_on_a_thousand_nodes_are_decided_at_once() -> None:
    generator = np.random.default_rng(1)
    nodes = [node(f"n{number}", 64, gpus=4, memory_bytes=256 * GIB) for number in range(1000)]
    running = [
        {
            "job_id": f"r{number}",
            "cores": 48,
            "gpus": number % 3,
            "started_s": 500,
            "limit_s": 600 + number,
            "nodes": [f"n{number}"],
        }
        for number in range(800)
    ]
    cores, limits_s = generator.integers(8, 65, 100).tolist(), generator.integers(60, 4000, 100).tolist()
    waiting = [
        job(f"w{number}", cores[number], limits_s[number], number, tasks=1 + number % 40) for number in range(100)
    ]
    document = {"now_s": 1000, "nodes": nodes, "running": running, "waiting": waiting}
    for policy in ("sjf+easy@best-fit", "default"):
        request = ScheduleRequest.model_validate({**document, "policy": policy})
        decide(request)
        times_ms = []
        for _ in range(5):
            begin = time.perf_counter()
            decide(request)
            times_ms.append((time.perf_counter() - begin) * 1000)
        assert statistics.median(times_ms) < 400  # tens of milliseconds on an idle machine
