from __future__ import annotations

import time
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from presage.errors import InputError
from presage.policies import ORDERS
from presage.policies.placements import PLACED_BACKFILLINGS, PLACEMENTS, PlacedPolicy
from presage.simulator import Jobs, _cluster, _inputs, _placed, _placements
from presage.simulator.nodes import Nodes, PlacedJobs
from presage.simulator.placed import Schedule, gpu_fragmentation, placeable, schedule_placed

from .reference import SCORES
from .reference_placed import Cluster, Job, Node, Placer

ANY = -1
POLICIES = [f"fcfs+{backfilling}@{placement}" for placement in PLACEMENTS for backfilling in PLACED_BACKFILLINGS]
ORDERINGS = [f"{order}+{backfilling}@best-fit" for order in ORDERS for backfilling in PLACED_BACKFILLINGS]


def arrays(jobs: list[Job], nodes: list[Node]) -> tuple[PlacedJobs, Nodes]:
    def column(name: str, rows: list[Job] | list[Node] = jobs) -> np.ndarray:
        return np.array([getattr(row, name) for row in rows], np.int64)

    plan = column("plan")
    base = Jobs(column("submit"), column("run"), column("limit"), plan, plan, column("size"))
    names = ("tasks", "cpu", "mem", "gpus", "share", "types", "features")
    machine = ("cpu", "mem", "gpus", "type_bit", "features", "rack")
    return PlacedJobs(base, *map(column, names)), Nodes(*(column(name, nodes) for name in machine))


# Few sizes, so that there are many ties. Drawing whole rows keeps the search fast.
GPUS = [(0, 0), (0, 300), (0, 500), (0, 700), (1, 0), (2, 0)]
TYPES = [ANY, ANY, 2, 6]
WANTS = list(product([1, 1, 1, 2, 3], [0, 500, 1000, 2000], [0, 0, 512, 1000], GPUS, TYPES, [0, 0, 1, 3]))
TIMES = list(product(range(1, 11), range(1, 13), range(4), range(1, 5)))
HARDWARE = list(product([2000, 4000, 4500], [0, 1024, 4096], [(0, 1), (1, 2), (2, 4), (4, 2)], range(4), range(3)))


@st.composite
def clusters(draw: st.DrawFn) -> list[Node]:
    """Up to six nodes with GPUs of two types, two features and three racks."""
    rows = draw(st.lists(st.sampled_from(HARDWARE), min_size=1, max_size=6))
    return [
        Node(number, cpu, mem, gpus, type_bit, features, rack)
        for number, (cpu, mem, (gpus, type_bit), features, rack) in enumerate(rows)
    ]


@st.composite
def workloads(draw: st.DrawFn) -> list[Job]:
    """Small gangs; plans may be shorter than runs."""
    unit = draw(st.sampled_from([1, 1000, 40_000]))
    row = st.tuples(st.integers(0, 12), st.sampled_from(TIMES), st.sampled_from(WANTS))
    rows = sorted(draw(st.lists(row, min_size=1, max_size=16)), key=lambda row: row[0])
    jobs = []
    for number, (submit, (run, plan, more, size), (tasks, cpu, mem, (gpus, share), *masks)) in enumerate(rows):
        times = [time * unit for time in (submit, run, plan, max(run, plan) + more)]
        jobs.append(Job(number, *times, size, tasks, cpu, mem, gpus, share, *masks))
    return jobs


def fitting(jobs: list[Job], nodes: list[Node]) -> list[Job]:
    """The jobs that fit on the empty machine, numbered anew."""
    fits = placeable(*arrays(jobs, nodes))
    kept = [job for job, good in zip(jobs, fits, strict=True) if good]
    assume(kept)
    return [replace(job, number=number) for number, job in enumerate(kept)]


def bits(mask: int) -> tuple[int, ...]:
    return tuple(bit for bit in range(mask.bit_length()) if mask >> bit & 1)


def places(schedule: Schedule) -> list[list[tuple[int, tuple[int, ...]]]]:
    members = [(int(node), bits(int(gpus))) for node, gpus in zip(schedule.node, schedule.gpus, strict=True)]
    return [members[begin:end] for begin, end in zip(schedule.first, schedule.first[1:], strict=False)]


def expected(jobs: list[Job], nodes: list[Node], policy: PlacedPolicy) -> list[Job]:
    top = tuple(
        max(1, *(amounts)) for amounts in zip(*((n.cpu, n.mem, n.gpus * 1000) for n in nodes), strict=True)
    )
    placer = Placer(policy.placement, jobs, top)
    copies = [replace(job) for job in jobs]
    Cluster([replace(node) for node in nodes], SCORES[policy.order], policy.backfilling, placer).simulate(copies)
    return copies


def agree(jobs: list[Job], nodes: list[Node], text: str) -> None:
    agree_on_all(fitting(jobs, nodes), nodes, text)


def agree_on_all(jobs: list[Job], nodes: list[Node], text: str) -> None:
    policy = PlacedPolicy.parse(text)
    reference = expected(jobs, nodes, policy)
    schedule = schedule_placed(*arrays(jobs, nodes), policy)
    assert schedule.start_ms.tolist() == [job.start for job in reference]
    assert places(schedule) == [job.places for job in reference]


@pytest.mark.parametrize("policy", POLICIES)
@settings(max_examples=50)
@given(jobs=workloads(), nodes=clusters())
def test_the_engine_places_every_member_where_the_plain_scheduler_does(
    policy: str, jobs: list[Job], nodes: list[Node]
) -> None:
    agree(jobs, nodes, policy)


@pytest.mark.parametrize("policy", ORDERINGS)
@settings(max_examples=10)
@given(jobs=workloads(), nodes=clusters())
def test_every_order_is_that_of_the_plain_scheduler(policy: str, jobs: list[Job], nodes: list[Node]) -> None:
    agree(jobs, nodes, policy)


# Two kinds of nodes and few wants: many nodes are in one state, and many states are in one score.
ALIKE = [(4000, 4096, 4, 2, 0), (4000, 4096, 0, 1, 0)]
SMALL = list(product([1, 1, 2, 4], [500, 1000], [0, 512], [(0, 0), (0, 300), (0, 500), (1, 0)]))


@st.composite
def many_alike(draw: st.DrawFn) -> tuple[list[Job], list[Node]]:
    """Up to 14 nodes of two kinds in three racks, and jobs that keep them busy; plans may be shorter than runs."""
    kinds = draw(st.lists(st.sampled_from(ALIKE), min_size=6, max_size=14))
    nodes = [Node(number, *kind, number % 3) for number, kind in enumerate(kinds)]
    row = st.tuples(st.integers(0, 9), st.sampled_from(TIMES), st.sampled_from(SMALL))
    rows = sorted(draw(st.lists(row, min_size=20, max_size=32)), key=lambda row: row[0])
    jobs = []
    for number, (submit, (run, plan, more, size), (tasks, cpu, mem, (gpus, share))) in enumerate(rows):
        times = (submit, run + 4, plan, max(run + 4, plan) + more)
        jobs.append(Job(number, *times, size, tasks, cpu, mem, gpus, share, ANY, 0))
    return jobs, nodes


@pytest.mark.parametrize("policy", POLICIES)
@settings(max_examples=8)
@given(many_alike())
def test_nodes_in_the_same_state_are_taken_in_order(policy: str, given: tuple[list[Job], list[Node]]) -> None:
    agree(*given, policy)


@pytest.mark.parametrize("policy", ["fcfs+skip@fgd", "fcfs+easy@fgd"])
def test_any_number_of_different_shares_is_told_apart(policy: str) -> None:
    rng = np.random.default_rng(5)
    shares = rng.permutation(np.arange(5, 1000, 11))[:80]
    jobs = [job(at, at // 8, int(rng.integers(5, 40)), share=int(share)) for at, share in enumerate(shares)]
    agree_on_all(jobs, [node(at, gpus=at % 3 + 1) for at in range(6)], policy)


@pytest.mark.parametrize("placement", ["best-fit", "dot-product", "kube-default", "fgd"])
def test_the_ordered_states_give_the_node_that_a_scan_gives(placement: str) -> None:
    """Members come to 300 nodes and go; a state that is kept in order and one that is scanned stay the same."""
    rng = np.random.default_rng(11)
    jobs, nodes = synthetic(300, 1500, 0.9)
    machine, demands = _inputs.machine_of(nodes), _inputs.demands_of(jobs)
    ordered, scanned = (_cluster.all_free(machine, real) for real in (True, False))
    typical = _inputs.typical_of(jobs)
    rule = int(PLACEMENTS.get(placement))
    running: list[tuple[_cluster.Want, int, int]] = []
    placed = np.empty((4, 1), np.int64)
    for number in range(len(jobs)):
        want = _placed.want_of(demands, number)
        shape = demands.shape[number]
        found = _placements.place(rule, machine, ordered, want, shape, typical, placed[0], placed[1])
        assert found == _placements.place(rule, machine, scanned, want, shape, typical, placed[2], placed[3])
        if found:
            assert placed[:2].tolist() == placed[2:].tolist()
            running.append((want, int(placed[0, 0]), int(placed[1, 0])))
        if not found or rng.random() < 0.4:
            for free in (ordered, scanned):
                want, at, gpus = running[number % len(running)]
                _cluster.give_back(machine, free, at, want, gpus)
            running.pop(number % len(running))


@pytest.mark.parametrize("policy", POLICIES)
@settings(max_examples=12)
@given(jobs=workloads(), nodes=clusters())
def test_no_schedule_breaks_the_laws(policy: str, jobs: list[Job], nodes: list[Node]) -> None:
    jobs = fitting(jobs, nodes)
    given = arrays(jobs, nodes)
    schedule = schedule_placed(*given, PlacedPolicy.parse(policy))
    where = places(schedule)
    for job, start, members in zip(jobs, schedule.start_ms, where, strict=True):
        assert start >= job.submit
        assert len(members) == job.tasks
        for number, gpus in members:
            assert nodes[number].type_bit & job.types
            assert not job.features & ~nodes[number].features
            assert len(gpus) == (1 if job.share else job.gpus)
    for instant in set(schedule.start_ms.tolist()):
        used = [[0, 0, [0] * node.gpus] for node in nodes]
        for job, start, members in zip(jobs, schedule.start_ms, where, strict=True):
            if start <= instant < start + job.run:
                for number, gpus in members:
                    used[number][0] += job.cpu
                    used[number][1] += job.mem
                    for gpu in gpus:
                        used[number][2][gpu] += job.share or 1000
        for node, (cpu, mem, gpus) in zip(nodes, used, strict=True):
            assert cpu <= node.cpu
            assert mem <= node.mem
            assert max(gpus, default=0) <= 1000
    again = schedule_placed(*given, PlacedPolicy.parse(policy))
    assert again.start_ms.tolist() == schedule.start_ms.tolist()
    assert again.node.tolist() == schedule.node.tolist()


def job(number: int = 0, submit: int = 0, run: int = 10, **wants: int) -> Job:
    """A job by hand, in seconds; wants nothing that is not named."""
    amounts = {"tasks": 1, "cpu": 0, "mem": 0, "gpus": 0, "share": 0, "types": ANY, "features": 0, **wants}
    return Job(number, submit * 1000, run * 1000, run * 1000, run * 1000, 1, **amounts)


def node(number: int = 0, cpu: int = 4000, mem: int = 4096, gpus: int = 0, rack: int = 0) -> Node:
    return Node(number, cpu, mem, gpus, 2 if gpus else 1, 0, rack)


def starts(jobs: list[Job], nodes: list[Node], policy: str) -> list[int]:
    return [int(ms) // 1000 for ms in schedule_placed(*arrays(jobs, nodes), PlacedPolicy.parse(policy)).start_ms]


def spots(jobs: list[Job], nodes: list[Node], placement: str) -> list[list[tuple[int, tuple[int, ...]]]]:
    """Where jobs go that all arrive at once and all fit."""
    policy = PlacedPolicy(placement=placement)
    return places(schedule_placed(*arrays(jobs, nodes), policy))


THREE = [node(0, 8000), node(1, 2000), node(2, 4000)]


@pytest.mark.parametrize(
    ("placement", "first", "second"), [("first-fit", 0, 0), ("best-fit", 1, 1), ("worst-fit", 0, 0)]
)
def test_fits_differ_in_what_is_left_over(placement: str, first: int, second: int) -> None:
    # Free shares of processors are 8/8, 2/8, 4/8 and memory is the same: best fit fills node 1, worst fit node 0
    # (7/8 is still the most).
    assert spots([job(0, cpu=1000), job(1, cpu=1000)], THREE, placement) == [[(first, ())], [(second, ())]]


def test_worst_fit_moves_on_when_another_node_has_more() -> None:
    assert [spot[0][0] for spot in spots([job(n, cpu=3000) for n in range(3)], THREE, "worst-fit")] == [0, 0, 2]


def test_the_dot_product_avoids_what_is_plentiful_and_wanted() -> None:
    # For a job that wants memory only, node 0 has 8/8 and node 1 has 2/8 of it; processors do not count.
    nodes = [node(0, 1000, 8192), node(1, 4000, 2048)]
    assert spots([job(0, mem=1024)], nodes, "dot-product") == [[(1, ())]]
    assert spots([job(0, cpu=1000)], nodes, "dot-product") == [[(0, ())]]


def test_kube_spreads_and_balances() -> None:
    # LeastAllocated of 1 CPU and 1 GiB: node 0 (75+75)/2 = 75, node 1 (87+50)/2 = 68. Balanced: node 0 100, node 1
    # 100 - (1/2 - 1/8)/2 = 81. Node 0 wins with 175 over 149; then it has 50 + 100 and wins again with 150; then
    # 25 + 100 = 125 against 149.
    nodes = [node(0, 4000, 4096), node(1, 8000, 2048)]
    assert [
        spot[0][0] for spot in spots([job(n, cpu=1000, mem=1024) for n in range(3)], nodes, "kube-default")
    ] == [
        0,
        0,
        1,
    ]


def test_kube_never_looks_at_gpus_and_counts_pods_that_ask_for_nothing() -> None:
    # 100m of 1 CPU and 200 MiB of 1 GiB count: (90 + 80)/2 = 85 on the second, 99 on the first two.
    nodes = [node(0, 10_000, 20_480, gpus=1), node(1, 10_000, 20_480), node(2, 1000, 1024)]
    assert [spot[0][0] for spot in spots([job(n) for n in range(3)], nodes, "kube-default")] == [0, 1, 0]


def test_gangs_take_as_few_racks_and_nodes_as_can_be() -> None:
    # Four members of 1 CPU. Rack 0 has room for 3, rack 1 for 6, rack 2 for 4: rack 2 holds all and no more.
    nodes = [
        node(0, 3000),
        node(1, 5000, rack=1),
        node(2, 1000, rack=1),
        node(3, 1000, rack=2),
        node(4, 3000, rack=2),
    ]
    placed = spots([job(0, tasks=4, cpu=1000)], nodes, "rack-packing")
    assert [number for number, _ in placed[0]] == [4, 4, 4, 3]
    # Nine members need two racks: rack 1 is the roomiest and is filled, rack 0 holds the other three best.
    placed = spots([job(0, tasks=9, cpu=1000)], nodes, "rack-packing")
    assert [number for number, _ in placed[0]] == [1, 1, 1, 1, 1, 2, 0, 0, 0]


def test_shares_go_to_the_gpu_with_the_least_left_that_is_enough() -> None:
    jobs = [job(0, share=300), job(1, gpus=1), job(2, share=500), job(3, share=500), job(4, share=200)]
    placed = spots(jobs, [node(gpus=3)], "first-fit")
    assert placed == [[(0, (0,))], [(0, (1,))], [(0, (0,))], [(0, (2,))], [(0, (0,))]]


def test_a_share_is_never_split() -> None:
    # 0.4 and 0.4 are free on two GPUs: a share of 0.5 waits.
    jobs = [job(0, share=600), job(1, share=600), job(2, share=500)]
    assert starts(jobs, [node(gpus=2)], "fcfs+skip") == [0, 0, 10]


def test_fgd_keeps_gpus_whole_for_those_that_want_them_whole() -> None:
    # Nine of ten jobs want two whole GPUs of a node. A share on node 0 (one GPU) costs them nothing: no such job
    # fits there anyway. On node 1 it would leave one useless GPU.
    typical = [job(n, submit=100, gpus=2) for n in range(1, 10)]
    assert spots([job(0, share=500), *typical], [node(0, gpus=2), node(1, gpus=1)], "fgd")[0] == [(1, (0,))]
    # First fit takes node 0.
    assert spots([job(0, share=500), *typical], [node(0, gpus=2), node(1, gpus=1)], "first-fit")[0] == [(0, (0,))]


def test_fgd_prefers_the_processors_that_no_gpu_needs() -> None:
    typical = [job(n, submit=100, cpu=4000, gpus=1) for n in range(1, 4)]
    assert spots([job(0, cpu=1000), *typical], [node(0, gpus=1), node(1)], "fgd")[0] == [(1, ())]


def test_fragmentation_is_what_typical_tasks_cannot_use() -> None:
    # A share of 0.4 runs on node 0. Free are 0.6 and 1 there and 1 on node 1. For two jobs that want a whole GPU
    # 0.6 is useless; for the one that wants 0.4 nothing is; for the one that wants two GPUs 2.6 are.
    jobs = [job(0, share=400), job(1, 100, gpus=1), job(2, 100, gpus=1), job(3, 100, gpus=2)]
    nodes = [node(0, gpus=2), node(1, gpus=1)]
    given = arrays(jobs, nodes)
    schedule = schedule_placed(*given, PlacedPolicy())
    assert gpu_fragmentation(*given, schedule, 5_000) == pytest.approx((2 * 0.6 + 2.6) / 4 / 2.6)
    assert gpu_fragmentation(*given, schedule, 50_000) == pytest.approx((0 + 0 + 1) / 4 / 3)


# Node 0 is full until 10, node 1 is free. Job 1 wants both nodes; jobs 2 and 3 fit on node 1, short and long.
BLOCKED = [
    job(0, 0, 10, cpu=4000),
    job(1, 1, 5, tasks=2, cpu=3000),
    job(2, 2, 4, cpu=4000),
    job(3, 3, 20, cpu=1000),
]


@pytest.mark.parametrize(
    ("backfilling", "expected"),
    [
        ("none", [0, 10, 15, 15]),
        # Job 2 is gone by 10; job 3 lasts longer and waits for its node until 6, then fits beside the reservation.
        ("easy", [0, 10, 2, 6]),
        # The same, and here the gang need not be waited for.
        ("skip", [0, 10, 2, 6]),
    ],
)
def test_backfillings_differ_at_the_first_gang_that_does_not_fit(backfilling: str, expected: list[int]) -> None:
    assert starts(BLOCKED, [node(0), node(1)], f"fcfs+{backfilling}") == expected


def test_easy_keeps_the_reserved_places_and_skip_does_not() -> None:
    # Job 1 wants both nodes whole; the long job 2 would hold node 1 beyond 10.
    jobs = [job(0, 0, 10, cpu=4000), job(1, 1, 5, tasks=2, cpu=4000), job(2, 2, 20, cpu=1000)]
    assert starts(jobs, [node(0), node(1)], "fcfs+easy") == [0, 10, 15]
    assert starts(jobs, [node(0), node(1)], "fcfs+skip") == [0, 22, 2]


def test_easy_finds_a_place_beside_the_reservation() -> None:
    # At 10 job 1 will take all of node 0, which is free in part until then. The long job 2 may not use the rest of
    # node 0 and goes to node 1.
    jobs = [job(0, 0, 10, cpu=2000), job(1, 1, 5, cpu=4000), job(2, 2, 20, cpu=1000)]
    nodes = [node(0), node(1, 1000)]
    schedule = schedule_placed(*arrays(jobs, nodes), PlacedPolicy("fcfs", "easy"))
    assert schedule.start_ms.tolist() == [0, 10_000, 2_000]
    assert schedule.node.tolist() == [0, 0, 1]


def test_what_long_jobs_take_beside_the_reservation_is_gone_for_the_next() -> None:
    # At 10 job 1 takes 6 of 8 processors and leaves 2. The long job 2 takes one of them, the short job 3 takes
    # another for now; for the long job 4, which wants 2, only one is left at 10, though 2 are free now.
    jobs = [
        job(0, 0, 10, cpu=4000),
        job(1, 1, 5, cpu=6000),
        job(2, 1, 20, cpu=1000),
        job(3, 1, 5, cpu=1000),
        job(4, 1, 20, cpu=2000),
    ]
    assert starts(jobs, [node(0, 8000)], "fcfs+easy") == [0, 10, 1, 1, 15]


def test_all_ends_of_the_shadow_time_count() -> None:
    # Job 2 fits at 10 when job 0 ends; job 1 ends at 10 too, so 2 processors are left for the long job 3.
    jobs = [job(0, 0, 10, cpu=4000), job(1, 0, 10, cpu=2000), job(2, 1, 5, cpu=6000), job(3, 1, 20, cpu=2000)]
    assert starts(jobs, [node(0, 8000)], "fcfs+easy") == [0, 0, 10, 1]


@settings(max_examples=40)
@given(jobs=workloads(), nodes=clusters())
def test_easy_never_delays_the_first_in_line(jobs: list[Job], nodes: list[Node]) -> None:
    """A last job that wants every node whole starts when all before it are done, if plans are honest."""
    honest = [replace(one, plan=max(one.plan, one.run)) for one in fitting(jobs, nodes)]
    nodes = [replace(one, cpu=4000) for one in nodes]
    last = max(one.submit for one in honest)
    whole = Job(len(honest), last, 5, 5, 5, 1, len(nodes), 4000, 0, 0, 0, ANY, 0)
    queue = [*(replace(one, cpu=max(one.cpu, 1)) for one in honest), whole]
    assume(placeable(*arrays(queue, nodes)).all())
    start = schedule_placed(*arrays(queue, nodes), PlacedPolicy("fcfs", "easy")).start_ms
    ends = start[:-1] + np.array([one.run for one in honest])
    assert start[-1] == max(last, ends.max())


def test_a_job_that_fits_on_no_empty_machine_is_refused() -> None:
    with pytest.raises(InputError, match="Job number 1 fits on no nodes"):
        schedule_placed(*arrays([job(0), job(1, tasks=3, cpu=4000)], [node(0), node(1)]), PlacedPolicy())


def synthetic(nodes: int, jobs: int, load: float) -> tuple[PlacedJobs, Nodes]:
    """Nodes of 64 processors and 8 GPUs, and jobs that use about `load` of their GPUs."""
    rng = np.random.default_rng(7)
    gpus = rng.choice([0, 1, 2, 4, 8], jobs, p=[0.3, 0.4, 0.15, 0.1, 0.05])
    share = np.where(rng.random(jobs) < 0.3, rng.integers(1, 10, jobs) * 100, 0)
    gpus = np.where(share > 0, 0, gpus)
    run = rng.exponential(3_600_000, jobs).astype(np.int64) + 1
    work = float((run * (gpus * 1000 + share)).sum())
    submit = np.sort(rng.uniform(0, work / (nodes * 8000 * load), jobs)).astype(np.int64)
    fill = np.ones(jobs, np.int64)
    base = Jobs(submit, run, run, run, run, np.maximum(gpus, 1))
    placed = PlacedJobs(
        base, fill, rng.integers(1, 9, jobs) * 1000, rng.integers(1, 33, jobs) * 1024, gpus, share, -fill, 0 * fill
    )
    each = np.ones(nodes, np.int64)
    return placed, Nodes(64_000 * each, 262_144 * each, 8 * each, 2 * each, 0 * each, np.arange(nodes) // 40)


def engine_cpu_s(jobs: PlacedJobs, nodes: Nodes, policy: str) -> float:
    parsed = PlacedPolicy.parse(policy)
    schedule_placed(jobs.select(np.arange(2)), nodes, parsed)
    begin = time.process_time()
    schedule = schedule_placed(jobs, nodes, parsed)
    assert (schedule.start_ms >= jobs.jobs.submit_ms).all()
    return time.process_time() - begin


@pytest.mark.parametrize("placement", ["first-fit", "best-fit", "worst-fit", "dot-product", "kube-default"])
def test_no_rule_looks_at_every_node_for_every_member(placement: str) -> None:
    """20,000 nodes and 50,000 jobs; a scan per job would be a billion nodes."""
    assert engine_cpu_s(*synthetic(20_000, 50_000, 0.9), f"fcfs+skip@{placement}") < 6  # 0.3 to 1.0 s when written


@pytest.mark.parametrize("placement", ["first-fit", "best-fit"])
def test_easy_does_not_copy_the_cluster_in_every_pass(placement: str) -> None:
    """2,000 nodes and 20,000 jobs, every twentieth a gang that waits; 7 and 10 s with a copy per pass."""
    jobs, nodes = synthetic(2_000, 20_000, 0.8)
    jobs = replace(jobs, tasks=np.where(np.arange(len(jobs)) % 20 == 0, 16, 1))
    assert engine_cpu_s(jobs, nodes, f"fcfs+easy@{placement}") < 4  # 0.9 s when written
