"""When the successor of a running job is submitted: cases worked out by hand, and the simulator's own schedule."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from presage.environments import (
    SUBMIT_FEATURES,
    ProcessorChanges,
    ProcessorFailures,
    SubmitTime,
    SubmitTimeVector,
    Windows,
)
from presage.errors import UsageError
from presage.policies import Policy
from presage.simulator.jobs import Jobs
from presage.simulator.pooled import schedule
from presage.testing import make_job, make_trace
from presage.traces import Trace
from presage.traces.workloads import make_model
from tests.environments.episodes import Fixed

HOUR = 3_600.0


@pytest.fixture(scope="module")
def trace() -> Trace:
    return make_model("lublin").generate(2_000, seed=3)


def small(
    *rows: tuple[float, float, int],
    changes: tuple[tuple[float, int], ...] = (),
    override: tuple[int, ...] = (),
    **settings: Any,
) -> SubmitTime:
    """Return a chain of jobs of 4 processors and 3 hours on 10 processors, among these jobs, asked every hour.

    Changes are hours and processors; the jobs in the places of `override` go first.
    """
    jobs = [make_job(submit, 0, run, size, limit_s=run) for submit, run, size in rows]
    episode = Windows(make_trace(*jobs, cpus=10), jobs=len(jobs)).draw(np.random.default_rng(0))
    at_ms = np.array([round(hours * HOUR * 1000) for hours, _ in changes], np.int64)
    by = np.array([count for _, count in changes], np.int64)
    flags = np.isin(np.arange(len(jobs)), override)
    workload = Fixed(replace(episode, changes=ProcessorChanges(at_ms, by), override=flags))
    chain = {"processors": 4, "limits_s": (3 * HOUR, 3 * HOUR), "interval_s": HOUR, "warm_up": 0.0}
    return SubmitTime(workload, **{**chain, **settings})


def play(environment: SubmitTime, waits: int) -> tuple[float, dict[str, float], int]:
    """Return the reward, what was told, and the number of decisions, if so many times 0 is chosen and then 1."""
    environment.reset(seed=0)
    for steps in range(1, 10_000):
        _, reward, done, _, info = environment.step(int(steps > waits))
        if done:
            return reward, info, steps
        assert reward == 0
    raise AssertionError("the episode has no end")


IDLE = ((0.0, 10.0, 1), (1.0, 10.0, 1))


@pytest.mark.parametrize(("waits", "overlap_h", "steps"), [(0, 3, 1), (1, 2, 2), (2, 1, 3), (3, 0, 3), (99, 0, 3)])
def test_on_an_idle_machine_hours_too_early_are_hours_of_overlap(waits: int, overlap_h: float, steps: int) -> None:
    """The end of the first job submits the second, at the latest: then there is neither gap nor overlap."""
    reward, info, taken = play(small(*IDLE, overlap_price=0.5), waits)

    assert info["overlap_h"] == pytest.approx(overlap_h)
    assert info["interruption_h"] == 0
    assert reward == pytest.approx(-0.5 * overlap_h)
    assert info["lead_s"] == pytest.approx(overlap_h * HOUR)
    assert info["wait_s"] == 0
    assert taken == steps


@pytest.mark.parametrize(("waits", "gap_h"), [(0, 0), (1, 2), (99, 2)])
def test_who_submits_behind_others_is_interrupted(waits: int, gap_h: float) -> None:
    """After 30 min a job of all processors comes for 2 hours; it starts when the chain's first ends after 3 hours.

    The second job of the chain, submitted before it, starts at once beside the first and overlaps; later ones wait
    for its end after 5 hours: they cannot pass, since that would delay it.
    """
    reward, info, _ = play(small(*IDLE, (HOUR / 2, 2 * HOUR, 10), interruption_price=2.0), waits)

    assert info["interruption_h"] == pytest.approx(gap_h)
    assert info["overlap_h"] == pytest.approx(0 if waits else 3)
    assert reward == pytest.approx(-2.0 * gap_h if waits else -3)


def test_what_is_seen_while_the_first_runs() -> None:
    """After an hour: 2 hours left; a job of 8 waits since half an hour and can start when the first has ended."""
    environment = small(*IDLE, (HOUR / 2, 2 * HOUR, 8))
    environment.reset(seed=0)
    seen, *_ = environment.step(0)
    column = dict(zip(SUBMIT_FEATURES, seen.tolist(), strict=True))
    times = {"remaining": 2, "limit": 3, "fits_in": 0, "oldest": 0.5, "first_in": 2, "work": 1.6, "promised": 0.8}

    assert {name: column[name] * 16 for name in times} == pytest.approx(
        {name: float(np.log1p(hours * HOUR)) for name, hours in times.items()}, rel=1e-5
    )
    assert column["size"] == pytest.approx(0.4)
    assert column["free"] == pytest.approx(0.6)
    assert column["waiting"] * 16 == pytest.approx(np.log(2), rel=1e-5)
    assert column["wanted"] * 16 == pytest.approx(np.log1p(0.8), rel=1e-5)


@pytest.mark.parametrize("waits", [0, 3, 12, 999])
@pytest.mark.parametrize("seed", range(3))
def test_the_machine_is_that_of_the_simulator(trace: Trace, waits: int, seed: int) -> None:
    """The second job starts where `fcfs+easy` starts it among the same jobs, submitted at the same instant."""
    workload = Windows(trace, jobs=300)
    environment = SubmitTimeVector(workload, 1, autoreset=False)
    environment.reset(seed=seed)
    done, steps = np.zeros(1, bool), 0
    while not done[0]:
        _, _, done, _, infos = environment.step(np.array([int(steps >= waits)]))
        steps += 1
    first_ms, second_ms = environment.start_ms(0)
    machines, chain = environment._machines, environment._chains[0]
    submits = machines.submit[0, :302]
    order = np.argsort(submits, kind="stable")
    fields = ("run", "limit", "plan", "plan", "size")
    jobs = Jobs(submits[order], *(getattr(machines, name)[0, :302][order] for name in fields))
    starts = schedule(jobs, 256, Policy.parse("fcfs+easy"))

    assert starts[order == chain[0]] == first_ms
    assert starts[order == 301] == second_ms
    assert infos["final_info"]["interruption_h"][0] >= 0


def hours(info: dict[str, float]) -> dict[str, float]:
    names = ("interruption_h", "overlap_h", "cut_short_h", "kills")
    return {name: info[name] for name in names}


def test_a_chain_whose_first_job_is_killed_goes_on_with_the_second() -> None:
    """8 of 10 processors fail after 1.5 hours, and are there again after 2: the second waits half an hour."""
    reward, info, steps = play(small(*IDLE, changes=((1.5, -8), (2, 8))), waits=99)

    assert hours(info) == {"interruption_h": 0.5, "overlap_h": 0, "cut_short_h": 1.5, "kills": 1}
    assert info["lead_s"] == 0
    assert reward == -0.5
    assert steps == 2, "the failure comes before the next question"


def test_a_failure_that_kills_both_costs_the_overlap_and_the_wait() -> None:
    reward, info, _ = play(small(*IDLE, changes=((1.5, -8), (2, 8)), interruption_price=4.0), waits=0)

    assert hours(info) == {"interruption_h": 0.5, "overlap_h": 1.5, "cut_short_h": 1.5, "kills": 2}
    assert reward == -(4 * 0.5 + 1.5)


def test_a_second_job_that_is_killed_too_early_starts_once_more() -> None:
    """Between 1 and 2 hours there is room for one of them: the younger goes, and overlaps again until 3 hours."""
    reward, info, _ = play(small(*IDLE, changes=((1, -4), (2, 4))), waits=0)

    assert hours(info) == {"interruption_h": 0, "overlap_h": 2, "cut_short_h": 0, "kills": 1}
    assert info["wait_s"] == 2 * HOUR
    assert reward == -2


def test_failures_after_the_hand_over_do_not_count() -> None:
    _, info, _ = play(small(*IDLE, changes=((4, -8), (5, 8))), waits=2)

    assert hours(info) == {"interruption_h": 0, "overlap_h": 1, "cut_short_h": 0, "kills": 0}


# Two jobs of all processors come while the first runs, for 2 hours and for 1.
CROWDED = (*IDLE, (HOUR / 2, 2 * HOUR, 10), (1.2 * HOUR, HOUR, 10))


@pytest.mark.parametrize(("override", "gap_h"), [((), 2), ((3,), 3)])
def test_jobs_of_others_that_are_put_first_go_before_the_chain(override: tuple[int, ...], gap_h: float) -> None:
    """The second is submitted after an hour, between the two."""
    _, info, _ = play(small(*CROWDED, override=override), waits=1)

    assert info["interruption_h"] == gap_h


def test_the_chain_is_behind_overrides_also_where_nobody_else_waits() -> None:
    """All others are put first; the second of the chain once had the rank of the very first of them."""
    _, info, _ = play(small(IDLE[0], (HOUR / 2, 2 * HOUR, 10), override=(0, 1)), waits=1)

    assert info["interruption_h"] == 2


def test_chains_among_failures_cost_what_they_say(trace: Trace) -> None:
    """Choices at random: the reward is that of the hours told, and some failures hit a chain."""
    workload = Windows(trace, jobs=300, failures=ProcessorFailures(20_000, 10_000, 96), override_share=0.1)
    environment = SubmitTimeVector(workload, 16, overlap_price=0.5, warm_up=0.1)
    environment.reset(seed=0)
    rng, cut, killed = np.random.default_rng(0), 0, 0.0
    for _ in range(300):
        _, rewards, done, _, infos = environment.step((rng.random(16) < 0.03).astype(np.int64))
        assert (rewards[~done] == 0).all()
        if not done.any():
            continue
        told = {name: values[done] for name, values in infos["final_info"].items()}
        np.testing.assert_allclose(rewards[done], -told["interruption_h"] - 0.5 * told["overlap_h"])
        assert all((values >= 0).all() for values in told.values())
        cut += int((told["cut_short_h"] > 0).sum())
        killed += told["kills"].sum()

    assert cut > 3
    assert killed > cut


def test_gymnasium_finds_no_fault(trace: Trace) -> None:
    environment = gymnasium.make("presage/SubmitTime-v1", workload=Windows(trace, jobs=64))

    check_env(environment.unwrapped)


def test_machines_go_on_with_new_chains(trace: Trace) -> None:
    environment = SubmitTimeVector(Windows(trace, jobs=64), 4)
    environment.reset(seed=0)
    limits = environment._machines.limit[np.arange(4), environment._chains[:, 1]]
    _, rewards, done, _, infos = environment.step(np.array([1, 0, 1, 0]))

    assert done.tolist() == [True, False, True, False]
    assert np.isnan(infos["final_info"]["wait_s"]).tolist() == [False, True, False, True]
    changed = environment._machines.limit[np.arange(4), environment._chains[:, 1]] != limits
    assert changed.tolist() == [True, False, True, False]
    assert rewards[1] == 0


def test_bad_settings_are_told(trace: Trace) -> None:
    workload = Windows(trace, jobs=64)
    with pytest.raises(UsageError, match="decide every 0 s"):
        SubmitTime(workload, interval_s=0)
    with pytest.raises(UsageError, match="300 processors do not fit on 256"):
        SubmitTime(workload, processors=300).reset()
