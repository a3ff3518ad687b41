"""The environments on nodes against the simulator: rules that choose in them make its schedules."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import gymnasium
import numpy as np
import polars as pl
import pytest
from gymnasium.utils.env_checker import check_env
from numpy.typing import NDArray

from presage.environments import (
    KUBE_FEATURES,
    PLACEMENT_FEATURES,
    KubeClusterVector,
    NodeChanges,
    NodeFailures,
    NodeWindows,
    NodeWorkload,
    PlacedEpisode,
    Placement,
    PlacementVector,
    ProcessorChanges,
)
from presage.errors import InputError, UsageError
from presage.policies import PlacedPolicy
from presage.simulator import measure
from presage.simulator.nodes import Nodes, placed_jobs_of
from presage.simulator.placed import gpu_fragmentation, schedule_placed
from presage.testing import make_job, make_trace
from presage.traces import Trace
from presage.traces.schema import NODES
from presage.traces.workloads import make_model

Seen = NDArray[np.float32]
FREE = PLACEMENT_FEATURES.index("free_share")
RULES: dict[str, Callable[[Seen, Seen], int]] = {
    "first-fit": lambda seen, mask: int(mask.argmax()),
    "best-fit": lambda seen, mask: int(np.where(mask, seen[:, FREE], np.inf).argmin()),
    "worst-fit": lambda seen, mask: int(np.where(mask, seen[:, FREE], -np.inf).argmax()),
}


@dataclass(frozen=True)
class Fixed(NodeWorkload):
    """Always the same episode."""

    episode: PlacedEpisode
    nodes: Nodes

    @property
    def jobs(self) -> int:  # type: ignore[override]  # an attribute elsewhere
        return len(self.episode.jobs)

    def draw(self, rng: np.random.Generator) -> PlacedEpisode:
        return self.episode


@pytest.fixture(scope="module", params=["openb", "philly"])
def trace(request: pytest.FixtureRequest) -> Trace:
    """Shares of GPUs and GPU types, or gangs of many members."""
    return make_model("gpu-cluster", {"nodes": 24, "preset": request.param, "load": 1.2}).generate(400, seed=1)


def play(environment: Any, choose: Callable[[Seen, Seen], int], seed: int = 0) -> tuple[float, dict[str, Any]]:
    """Return the sum of the rewards of an episode of one cluster, and what was told of it."""
    seen, infos = environment.reset(seed=seed)
    total, done = 0.0, np.zeros(1, bool)
    while not done[0]:
        chosen = choose(seen[0], infos["action_mask"][0])
        seen, rewards, done, _, infos = environment.step(np.array([chosen]))
        total += float(rewards[0])
    return total, infos["final_info"]


@pytest.mark.parametrize("backfill", ["none", "skip"])
@pytest.mark.parametrize("rule", RULES)
def test_a_rule_makes_the_schedule_of_the_simulator(trace: Trace, rule: str, backfill: str) -> None:
    environment = PlacementVector(NodeWindows(trace, jobs=400), 1, backfill=backfill, autoreset=False)
    total, told = play(environment, RULES[rule])
    jobs, nodes = placed_jobs_of(trace, kill=True)
    order = "fcfs" if backfill == "none" else "fcfs+skip"
    expected = schedule_placed(jobs, nodes, PlacedPolicy.parse(f"{order}@{rule}"))

    np.testing.assert_array_equal(environment.start_ms(0), expected.start_ms)
    np.testing.assert_array_equal(environment.nodes_of(0), expected.node)
    assert total == pytest.approx(-told["mean_response_s"][0] / 3600)


def test_the_first_gang_that_fits_is_admitted_as_in_the_simulator(trace: Trace) -> None:
    environment = KubeClusterVector(NodeWindows(trace, jobs=400), 1, slots=400, autoreset=False)
    total, _ = play(environment, lambda seen, mask: int(mask.argmax()))
    jobs, nodes = placed_jobs_of(trace, kill=True)
    expected = schedule_placed(jobs, nodes, PlacedPolicy.parse("fcfs+skip@best-fit"))

    np.testing.assert_array_equal(environment.start_ms(0), expected.start_ms)
    np.testing.assert_array_equal(environment.nodes_of(0), expected.node)
    assert total < 0


@pytest.mark.parametrize("name", ["Placement", "KubeCluster"])
def test_gymnasium_finds_no_fault(trace: Trace, name: str) -> None:
    workload = NodeWindows(trace, jobs=64, load=1.0)
    check_env(gymnasium.make(f"presage/{name}-v1", workload=workload).unwrapped)


def cluster(*jobs: dict[str, Any], gpus: tuple[int, ...] = (2, 4)) -> Trace:
    """Return jobs on nodes with so many GPUs, and as many processors."""
    columns = {
        "node_id": [f"n{k}" for k in range(len(gpus))],
        "cpus": [float(count) for count in gpus],
        "gpus": [float(count) for count in gpus],
    }
    rows = pl.DataFrame(
        {name: pl.Series(columns.get(name, [None] * len(gpus)), dtype=kind) for name, kind in NODES.items()}
    )
    return replace(make_trace(*jobs), nodes=rows)


def job(submit: float, run: float, gpus: float, tasks: int = 1) -> dict[str, Any]:
    return make_job(submit, 0, run, cpus_req=0.0, gpus_req=gpus, tasks=tasks, limit_s=run)


def test_what_is_seen_of_two_nodes() -> None:
    """A job of one GPU on the larger node, then a share of half a GPU that has to go somewhere."""
    environment = Placement(NodeWindows(cluster(job(0, 100, 1), job(10, 50, 0.5)), jobs=2))
    environment.reset(seed=0)
    seen, _, done, _, info = environment.step(1)
    column = {name: seen[:, place].tolist() for place, name in enumerate(PLACEMENT_FEATURES)}

    assert not done
    assert info["action_mask"].tolist() == [True, True]
    assert column["gpu"] == [0.5, 0.75]
    assert column["whole"] == [0.5, 0.75]
    assert column["widest"] == [1, 1]
    assert column["want_gpu"] == [0.125, 0.125]
    assert column["waiting"] == pytest.approx([np.log(2) / 16] * 2)


def test_members_are_placed_one_by_one_and_start_together() -> None:
    """Three members of a GPU each: asked three times, as long as both nodes have room."""
    environment = PlacementVector(
        NodeWindows(cluster(job(0, 100, 3, 3), job(5, 10, 4)), jobs=2), 1, autoreset=False
    )
    environment.reset(seed=0)
    for node in (0, 1):
        environment.step(np.array([node]))
        assert environment.start_ms(0).tolist() == [-1, -1]
    _, _, done, _, _ = environment.step(np.array([0]))

    assert done[0], "of the second job all goes without saying: it waits until all of the larger node is free"
    assert environment.nodes_of(0)[:3].tolist() == [0, 1, 0]
    assert environment.start_ms(0).tolist() == [0, 100_000]


def test_a_gang_is_killed_whole_when_one_of_its_nodes_fails() -> None:
    """The gang holds GPUs of both nodes; the first fails at 50 s until 80 s, and the gang begins anew."""
    workload = NodeWindows(cluster(job(0, 100, 6, 3), job(300, 10, 1)), jobs=2)
    episode = workload.draw(np.random.default_rng(0))
    changes = NodeChanges(np.array([50_000, 80_000]), np.array([0, 0]), np.array([-1, 1]))
    failing = Fixed(replace(episode, node_changes=changes), workload.nodes)
    environment = KubeClusterVector(failing, 1, objective="wait", slots=2, autoreset=False)
    total, told = play(environment, lambda seen, mask: int(mask.argmax()))

    assert environment.start_ms(0).tolist() == [80_000, 300_000]
    assert told["mean_wait_s"][0] == 40
    assert total == pytest.approx(-40 / 3600), "what the first start cost came back"


def test_nobody_is_admitted_until_the_next_event() -> None:
    """The job of all GPUs that comes at 10 s can start at once if the small ones are held back till then."""
    environment = KubeClusterVector(
        NodeWindows(cluster(job(0, 100, 1), job(10, 20, 6, 3), job(11, 5, 1)), jobs=3), 1, slots=4, autoreset=False
    )
    _, infos = environment.reset(seed=0)
    assert infos["action_mask"][0].tolist() == [True, False, False, False, True]
    environment.step(np.array([4]))
    seen, _, _, _, infos = environment.step(np.array([1]))

    assert environment.start_ms(0).tolist() == [-1, 10_000, -1]
    assert infos["action_mask"][0].tolist() == [True, True, False, False, False], "nothing else will happen"
    assert seen[0, 0, KUBE_FEATURES.index("free_gpu")] == 1
    assert seen[0, :3, KUBE_FEATURES.index("is_there")].tolist() == [1, 1, 0]


@pytest.mark.parametrize("kind", [PlacementVector, KubeClusterVector])
def test_nodes_that_fail_run_nothing(trace: Trace, kind: Any) -> None:
    """Choices at random among failures: no node holds more than it has, none that is down holds anything."""
    span_s = (
        float(np.ptp(NodeWindows(trace, jobs=400, load=1.0).draw(np.random.default_rng(0)).jobs.submit_ms)) / 1000
    )
    workload = NodeWindows(trace, jobs=400, load=1.0, failures=NodeFailures(span_s / 20, span_s / 10))
    environment = kind(workload, 1, autoreset=False)
    rng = np.random.default_rng(0)
    total, told = play(environment, lambda seen, mask: int(rng.choice(np.flatnonzero(mask))), seed=2)
    episode, start_ms = workload.draw(np.random.default_rng(2)), environment.start_ms(0)
    wants, changes = episode.wants, episode.node_changes
    assert changes is not None
    assert len(changes.at_ms) > 4
    owner = np.repeat(np.arange(len(wants)), wants.tasks)
    node, gpus = environment.nodes_of(0), (wants.gpus + wants.gpu_milli / 1000)[owner]
    for instant in np.unique(np.concatenate([start_ms, changes.at_ms])):
        running = ((start_ms <= instant) & (instant < start_ms + episode.jobs.run_ms))[owner]
        up = np.ones(24)
        np.add.at(up, changes.node[changes.at_ms <= instant], changes.by[changes.at_ms <= instant])
        held = np.bincount(node[running], gpus[running], minlength=24)
        assert (held <= workload.nodes.gpus * up + 1e-9).all()
        assert up[node[running]].all()
    assert total == pytest.approx(-told["mean_response_s"][0] / 3600)
    assert told["mean_wait_s"][0] == pytest.approx(measure(episode.jobs, start_ms, episode.processors).mean_wait_s)


def flagged(trace: Trace, *places: int, nodes: NodeChanges | None = None) -> Fixed:
    """Return all jobs of a trace as one episode in which an operator puts those in these places first."""
    workload = NodeWindows(trace, jobs=len(trace))
    episode = workload.draw(np.random.default_rng(0))
    override = np.isin(np.arange(len(trace)), places)
    return Fixed(replace(episode, override=override, node_changes=nodes), workload.nodes)


def first_possible(seen: Seen, mask: Seen) -> int:
    return int(mask.argmax())


# Six GPUs on two nodes: all busy until 100 s, then three jobs of which only one or two fit at once.
BUSY = (job(0, 100, 6, 3), job(10, 20, 3, 3), job(20, 20, 6, 3), job(30, 30, 4, 2))


def test_an_override_goes_before_any_choice_of_a_gang() -> None:
    """The last to come is first at 100 s; of the two others the one that came first is chosen, at 130 s."""
    plain, urgent = (
        KubeClusterVector(flagged(cluster(*BUSY), *places), 1, slots=4, autoreset=False) for places in ((), (3,))
    )
    play(plain, first_possible)
    _, told = play(urgent, first_possible)

    assert plain.start_ms(0).tolist() == [0, 100_000, 120_000, 140_000]
    assert urgent.start_ms(0).tolist() == [0, 130_000, 150_000, 100_000]
    assert told["overrides"][0] == 1
    assert told["override_wait_s"][0] == 70


def test_gangs_pass_an_override_only_if_they_end_before_it_can_start() -> None:
    """A gang of all GPUs waits for 100 s: of two that fit beside the first, one is planned to end by then.

    Nobody is admitted either, as long as something will happen.
    """
    jobs = (job(0, 100, 2), job(10, 20, 6, 3), job(20, 81, 1), job(20, 80, 1))
    environment = KubeClusterVector(flagged(cluster(*jobs), 1), 1, slots=4, autoreset=False)
    environment.reset(seed=0)
    seen, _, _, _, infos = environment.step(np.array([0]))

    assert infos["action_mask"][0].tolist() == [False, False, True, False, True]
    assert seen[0, :4, KUBE_FEATURES.index("fits")].tolist() == [0, 0, 1, 0], "the override stands first"
    environment.step(np.array([2]))
    assert environment.start_ms(0).tolist() == [0, 100_000, -1, 20_000]


def test_overrides_pass_each_other_only_without_delay() -> None:
    """Both wait behind the first: the second override is short enough to go ahead, the third is not."""
    jobs = (job(0, 100, 2), job(10, 20, 6, 3), job(10, 500, 2), job(10, 50, 2), job(700, 1, 1))
    environment = KubeClusterVector(flagged(cluster(*jobs), 1, 2, 3), 1, slots=4, autoreset=False)
    play(environment, first_possible)

    assert environment.start_ms(0)[:4].tolist() == [0, 100_000, 120_000, 10_000]


def test_all_may_pass_an_override_that_waits_for_a_repair() -> None:
    """The larger node is down from 5 s to 500 s, and the gang of all GPUs waits for it."""
    changes = NodeChanges(np.array([5_000, 500_000]), np.array([1, 1]), np.array([-1, 1]))
    jobs = (job(10, 20, 6, 3), job(20, 900, 1), job(20, 30, 2), job(600, 1, 1))
    environment = KubeClusterVector(flagged(cluster(*jobs), 0, nodes=changes), 1, slots=4, autoreset=False)
    _, infos = environment.reset(seed=0)
    assert infos["action_mask"][0].tolist() == [False, True, True, False, True]
    environment.step(np.array([1]))

    assert environment.start_ms(0)[1] == 20_000


def test_an_override_that_is_killed_goes_before_all_others_again() -> None:
    """Its node fails at 50 s; at 60 s half of the other is free, but whoever took that would delay it."""
    changes = NodeChanges(np.array([50_000, 400_000]), np.array([0, 0]), np.array([-1, 1]))
    jobs = (job(0, 300, 4), job(0, 100, 2), job(10, 50, 2), job(20, 300, 2), job(600, 1, 1))
    failing = flagged(cluster(*jobs, gpus=(4, 4)), 0, nodes=changes)
    environment = KubeClusterVector(failing, 1, slots=4, autoreset=False)
    _, told = play(environment, first_possible)

    assert environment.start_ms(0).tolist() == [100_000, 0, 10_000, 400_000, 600_000]
    assert told["kills"][0] == 1


@pytest.mark.parametrize("backfill", ["none", "skip"])
def test_an_override_is_placed_before_others(backfill: str) -> None:
    environment = PlacementVector(flagged(cluster(*BUSY), 3), 1, backfill=backfill, autoreset=False)
    play(environment, first_possible)

    assert environment.start_ms(0).tolist() == [0, 130_000, 150_000, 100_000]


@pytest.mark.parametrize("kind", [PlacementVector, KubeClusterVector])
def test_a_share_so_small_that_nobody_has_it_changes_nothing(trace: Trace, kind: Any) -> None:
    schedules = []
    for share in (0.0, 1e-12):
        environment = kind(NodeWindows(trace, jobs=200, load=1.0, override_share=share), 1, autoreset=False)
        play(environment, first_possible, seed=1)
        schedules.append(environment.start_ms(0))

    np.testing.assert_array_equal(*schedules)


def test_fragmentation_is_what_the_simulator_says() -> None:
    """One start: the price is the share of the free GPUs that a typical task cannot use right after it."""
    workload = NodeWindows(cluster(job(0, 100, 0.5), job(200, 50, 2)), jobs=2)
    jobs, nodes = placed_jobs_of(workload.trace, kill=True)
    for node in (0, 1):
        free = PlacementVector(workload, 1, autoreset=False, objective="wait=0", fragmentation_price=1.0)
        free.reset(seed=0)
        _, rewards, _, _, _ = free.step(np.array([node]))
        schedule = schedule_placed(
            jobs, nodes, PlacedPolicy.parse("fcfs@best-fit" if node == 0 else "fcfs@worst-fit")
        )
        assert schedule.node[0] == node
        assert rewards[0] == pytest.approx(-gpu_fragmentation(jobs, nodes, schedule, 0) / 2)


def test_load_is_what_was_asked_for(trace: Trace) -> None:
    episode = NodeWindows(trace, jobs=200, load=0.7).draw(np.random.default_rng(1))
    wants, span_ms = episode.wants, np.ptp(episode.jobs.submit_ms)
    gpu_ms = (wants.gpus + wants.gpu_milli / 1000) * wants.tasks * episode.jobs.run_ms

    assert gpu_ms.sum() / (episode.processors * span_ms) == pytest.approx(0.7, rel=1e-3)


@pytest.mark.parametrize(("node", "by"), [((0, 0), (1, -1)), ((0, 1), (-1, 1)), ((0, 7), (-1, 1)), ((0,), (-1,))])
def test_impossible_failures_are_told(node: tuple[int, ...], by: tuple[int, ...]) -> None:
    episode = NodeWindows(cluster(job(0, 100, 1), job(10, 50, 0.5)), jobs=2).draw(np.random.default_rng(0))
    with pytest.raises(UsageError, match="do not go together"):
        replace(episode, node_changes=NodeChanges(np.arange(len(node)) * 1000, np.array(node), np.array(by)))


def test_what_nodes_do_not_have_is_told() -> None:
    episode = NodeWindows(cluster(job(0, 100, 1), job(10, 50, 0.5)), jobs=2).draw(np.random.default_rng(0))
    with pytest.raises(UsageError, match="fail as a whole"):
        replace(episode, changes=ProcessorChanges(np.array([1, 2]), np.array([-1, 1])))


def test_bad_settings_are_told(trace: Trace) -> None:
    with pytest.raises(UsageError, match="no backfilling 'easy'"):
        Placement(NodeWindows(trace), backfill="easy")
    with pytest.raises(UsageError, match="every 0 s"):
        NodeFailures(0, 1)
    with pytest.raises(UsageError, match=r"No share of jobs is -0\.1"):
        NodeWindows(trace, override_share=-0.1)
    with pytest.raises(InputError, match="fits on no nodes"):
        NodeWindows(cluster(job(0, 1, 1), job(0, 1, 9), job(0, 1, 1)), jobs=2)
    with pytest.raises(InputError, match="no table of nodes"):
        NodeWindows(make_trace(job(0, 1, 1), job(0, 1, 1)), jobs=2)
    kept = NodeWindows(cluster(job(0, 1, 1), job(0, 1, 9), job(0, 1, 1)), jobs=2, drop_unplaceable=True)
    assert len(kept.all_jobs) == 2
