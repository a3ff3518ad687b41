"""Processors that fail, and jobs that an operator puts first, in the environments of pooled processors."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from presage.environments import BatchOrderVector, Episode, ProcessorChanges, ProcessorFailures, Windows
from presage.errors import UsageError
from presage.simulator import measure
from presage.testing import make_job, make_trace
from presage.traces import Trace
from presage.traces.workloads import make_model
from tests.environments.episodes import Fixed


@pytest.fixture(scope="module")
def trace() -> Trace:
    return make_model("lublin").generate(600, seed=3)


def episode_of(*rows: tuple[float, float, int]) -> Episode:
    """Return jobs on 10 processors, by submit second, run seconds and size."""
    jobs = [make_job(submit, 0, run, size, limit_s=run) for submit, run, size in rows]
    return Windows(make_trace(*jobs, cpus=10), jobs=len(jobs)).draw(np.random.default_rng(0))


def changes(*pairs: tuple[float, int]) -> ProcessorChanges:
    return ProcessorChanges(np.array([round(at * 1000) for at, _ in pairs]), np.array([by for _, by in pairs]))


def play(episode: Episode, choices: tuple[int, ...] = (), **settings: Any) -> tuple[list[float], float]:
    """Return the starts in seconds and the sum of the rewards; after the choices the first possible is chosen."""
    environment = BatchOrderVector(Fixed(episode), 1, slots=8, autoreset=False, **settings)
    _, infos = environment.reset(seed=0)
    rest, total, done = list(choices), 0.0, np.zeros(1, bool)
    while not done[0]:
        chosen = rest.pop(0) if rest else int(infos["action_mask"][0].argmax())
        _, rewards, done, _, infos = environment.step(np.array([chosen]))
        total += rewards[0]
    return (environment.start_ms(0) / 1000).tolist(), total


def test_the_youngest_job_is_killed_and_waits_again() -> None:
    """4 of 10 processors fail at 50 s while 3 are free: the job of 2 that began at 10 s goes, and runs at 80 s."""
    quiet = episode_of((0, 100, 5), (10, 200, 2), (400, 10, 1), (400, 10, 1))
    starts, _ = play(quiet)
    assert starts == [0, 10, 400, 400]

    failing = replace(quiet, changes=changes((50, -4), (80, 4)))
    starts, total = play(failing, objective="wait")
    assert starts == [0, 80, 400, 400]
    assert total == pytest.approx(-70 / 4 / 3600), "what its first start cost came back"


def test_free_processors_fail_first() -> None:
    failing = replace(
        episode_of((0, 100, 5), (10, 200, 2), (400, 9, 1), (400, 9, 1)), changes=changes((50, -3), (80, 3))
    )

    assert play(failing)[0] == [0, 10, 400, 400]


def test_jobs_pass_one_that_waits_for_repair() -> None:
    """Half of the machine is down until 500 s: the job of 6 that is chosen cannot be planned, so all may pass."""
    failing = replace(episode_of((0, 100, 6), (10, 30, 5), (10, 400, 5)), changes=changes((5, -5), (500, 5)))
    starts, _ = play(failing, choices=(0, 2))

    assert starts == [500, 410, 10]


def test_an_episode_lasts_until_nobody_can_be_killed() -> None:
    """All jobs have started at 10 s, but the machine fails at 50 s."""
    failing = replace(episode_of((0, 100, 5), (0, 100, 5)), changes=changes((50, -10), (60, 10)))
    starts, total = play(failing, objective="wait")

    assert starts == [60, 60]
    assert total == pytest.approx(-60 / 3600)


@pytest.mark.parametrize("semantics", ["standard", "commit"])
def test_no_more_runs_than_is_there(trace: Trace, semantics: str) -> None:
    """Choices at random among failures: the machine is never overfull, and rewards add up to the objective."""
    workload = Windows(trace, jobs=200, failures=ProcessorFailures(10_000, 5_000, 32), override_share=0.1)
    environment = BatchOrderVector(workload, 1, slots=64, semantics=semantics, autoreset=False)
    _, infos = environment.reset(seed=4)
    rng, total, done = np.random.default_rng(0), 0.0, np.zeros(1, bool)
    while not done[0]:
        chosen = rng.choice(np.flatnonzero(infos["action_mask"][0]))
        _, rewards, done, _, infos = environment.step(np.array([chosen]))
        total += rewards[0]
    episode, start_ms = workload.draw(np.random.default_rng(4)), environment.start_ms(0)
    jobs, failed = episode.jobs, episode.changes
    assert failed is not None
    assert len(failed.at_ms) > 10
    assert (start_ms >= jobs.submit_ms).all()
    for instant in np.unique(np.concatenate([start_ms, failed.at_ms])):
        running = (start_ms <= instant) & (instant < start_ms + jobs.run_ms)
        assert jobs.processors[running].sum() <= 256 + failed.by[failed.at_ms <= instant].sum()
    assert total == pytest.approx(-measure(jobs, start_ms, 256).mean_bounded_slowdown)


def test_an_override_goes_before_any_choice() -> None:
    """The last to come is first at 100 s, without being asked about; the two others are a choice at 130 s."""
    waiting = episode_of((0, 100, 10), (10, 20, 5), (20, 20, 6), (30, 30, 10))
    assert play(waiting)[0] == [0, 100, 120, 140]

    flagged = replace(waiting, override=np.array([False, False, False, True]))
    assert play(flagged)[0] == [0, 130, 150, 100]
    assert play(flagged, choices=(1,))[0] == [0, 150, 130, 100]


def test_an_override_that_does_not_fit_is_reserved_for() -> None:
    """The job of 8 is to start at 100 s: of three that fit now, two leave it its time or its processors."""
    waiting = episode_of((0, 100, 6), (10, 20, 8), (10, 90, 2), (10, 500, 3), (10, 500, 2))
    flagged = replace(waiting, override=np.array([False, True, False, False, False]))
    environment = BatchOrderVector(Fixed(flagged), 1, slots=8, autoreset=False)
    _, infos = environment.reset(seed=0)

    assert infos["action_mask"][0, :4].tolist() == [False, True, False, True]


@pytest.mark.parametrize(
    ("pairs", "told"),
    [
        ([(50, -11), (60, 11)], "leave -1 to 10 of 10"),
        ([(50, -1)], "9 at last"),
        ([(50, 1), (60, -1)], "leave 10 to 11 of 10"),
        ([(60, -1), (50, 1)], "not in order"),
    ],
)
def test_impossible_failures_are_told(pairs: list[tuple[float, int]], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        replace(episode_of((0, 100, 5), (10, 200, 2)), changes=changes(*pairs))


def test_bad_settings_are_told(trace: Trace) -> None:
    with pytest.raises(UsageError, match="cannot fail every 0 s"):
        ProcessorFailures(0, 10)
    with pytest.raises(UsageError, match=r"No share of jobs is 1\.5"):
        Windows(trace, override_share=1.5)


def test_failures_are_as_frequent_as_asked() -> None:
    drawn = ProcessorFailures(1_000, 500, 4).draw(np.random.default_rng(0), np.array([0, 10_000_000_000]), 64)
    down_ms = float((drawn.at_ms * drawn.by).sum()) / 4

    assert (drawn.by < 0).sum() == pytest.approx(10_000, rel=0.05)
    assert down_ms / (drawn.by < 0).sum() == pytest.approx(500_000, rel=0.05)
