from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from presage.connectors import JobStatus
from presage.errors import ConfigError
from presage.orchestrator.actions import Action, next_sub_job
from presage.orchestrator.endings import ending_of
from presage.orchestrator.facts import FACTS, facts_of
from presage.orchestrator.jobs import Ending, ManagedJob, Order, Phase, Place, Progress, SubJob
from presage.orchestrator.rules import load_rules, parse_rules
from presage.traces.schema import Outcome

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
PLACE = Place("sim", walltime_s=3600, limit_s=7200, memory_bytes=100, work_s=4000)
FAST = replace(PLACE, partition="fast", work_s=1000)
ORDER = Order("train", "#!/bin/sh\n", (PLACE,), run_folder="run")


def job_with(*sub_jobs: SubJob, order: Order = ORDER, progress: Progress | None = None) -> ManagedJob:
    return ManagedJob("j", "ann", order, Phase.ACTIVE, NOW, sub_jobs, progress)


def running_since(minutes: float) -> SubJob:
    status = JobStatus("1", Outcome.RUNNING, start_time=NOW - timedelta(minutes=minutes))
    return SubJob(1, "k1", PLACE, cluster_job_id="1", status=status)


def ended(number: int, ending: Ending, **changes: object) -> SubJob:
    return replace(SubJob(number, f"k{number}", PLACE, cluster_job_id=str(number), ending=ending), **changes)


def decided(job: ManagedJob, wait_s: float = 0.0) -> str | None:
    decision = load_rules().decide(facts_of(job, NOW, lambda _: wait_s))
    return decision.rule if decision else None


def test_a_successor_is_submitted_when_its_wait_and_the_rest_of_the_limit_are_even() -> None:
    progress = Progress(10, 100, NOW, per_s=0.01)  # 9000 s left
    assert decided(job_with(running_since(40), progress=progress), wait_s=1000) is None  # 1200 s of the limit left
    assert decided(job_with(running_since(45), progress=progress), wait_s=1000) == "overlap"
    assert decided(job_with(running_since(45), progress=Progress(95, 100, NOW, 0.01)), wait_s=1000) is None


def test_the_next_job_asks_for_what_the_rest_takes_and_not_above_the_limit() -> None:
    for done, asked_s in ((90, 1.2 * 1000 + 120), (0, 7200)):
        job = job_with(ended(1, Ending.TIMEOUT), progress=Progress(done, 100, NOW, per_s=0.01))
        decision = load_rules().decide(facts_of(job, NOW))
        assert decision is not None
        assert (decision.action, next_sub_job(job, decision).place.walltime_s) == (Action.CONTINUE, asked_s)


def test_a_successor_that_is_not_needed_or_would_fail_too_is_taken_back() -> None:
    heir = SubJob(2, "k2", PLACE, cluster_job_id="2", follows="1")
    almost = job_with(running_since(50), heir, progress=Progress(99.9, 100, NOW, per_s=0.01))
    assert decided(almost) == "successor-not-needed"
    told_to_save = job_with(running_since(59.5), heir, progress=Progress(99.9, 100, NOW, per_s=0.01))
    assert decided(told_to_save) is None
    assert decided(job_with(ended(1, Ending.OUT_OF_MEMORY), heir)) == "successor-unfit"
    assert decided(job_with(ended(1, Ending.TIMEOUT), heir)) == "handed-on"
    assert decided(job_with(ended(1, Ending.COMPLETED), heir)) == "finish"
    taken_back = replace(heir, ending=Ending.CANCELLED, is_cancelled_by_us=True)
    assert decided(job_with(ended(1, Ending.OUT_OF_MEMORY), taken_back)) == "memory-more"


def test_a_job_that_waits_because_of_how_the_last_one_ended_is_left_alone() -> None:
    waiting = SubJob(2, "k2", PLACE, cluster_job_id="2")
    assert decided(job_with(ended(1, Ending.OUT_OF_MEMORY), waiting)) is None


def test_without_progress_it_is_given_up_and_with_some_it_is_not() -> None:
    stuck = [ended(number, Ending.NODE_FAILURE, done_before=5.0, done_after=5.0) for number in (1, 2, 3)]
    moving = [*stuck[:2], ended(3, Ending.NODE_FAILURE, done_before=5.0, done_after=6.0)]
    assert decided(job_with(*stuck)) == "no-progress"
    assert decided(job_with(*moving)) == "bad-luck"


def test_a_job_that_cannot_resume_gets_more_time_or_is_given_up() -> None:
    order = replace(ORDER, run_folder=None)
    job = job_with(ended(1, Ending.TIMEOUT), order=order)
    decision = load_rules().decide(facts_of(job, NOW))
    assert decision is not None
    assert (decision.rule, next_sub_job(job, decision).place.walltime_s) == ("longer", 7200)
    longest = ended(1, Ending.TIMEOUT, place=replace(PLACE, walltime_s=7200))
    assert decided(job_with(longest, order=order)) == "give-up"


def test_an_operator_s_rules_come_first(tmp_path: Path) -> None:
    own = tmp_path / "rules.toml"
    own.write_text(
        '[[rule]]\nname = "never"\nwhen = { ending = "preempted" }\naction = "fail"\nreason = "ours: {ending}"\n'
    )
    decision = load_rules(own).decide(facts_of(job_with(ended(1, Ending.PREEMPTED)), NOW))
    assert decision is not None
    assert (decision.rule, decision.reason) == ("never", "ours: preempted")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("rule = 3", "cannot be used"),
        ("[[rule", "not TOML"),
        ('[[rule]]\nname="a"\nwhen={endnig="x"}\naction="fail"\nreason=""', "Did you mean 'ending'"),
        ('[[rule]]\nname="a"\nwhen={}\naction="explode"\nreason=""', "actions among begin"),
        ('[[rule]]\nname="a"\nwhen={fruitless=">>3"}\naction="fail"\nreason=""', "a comparison like"),
        ('[[rule]]\nname="a"\nwhen={}\naction="fail"\nreason=""\nmore=1', "more"),
    ],
)
def test_mistakes_in_rules_are_told_by_name(text: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        parse_rules(text, "own.toml")


def test_every_fact_that_rules_may_ask_for_can_be_known(tmp_path: Path) -> None:
    situations = [
        job_with(running_since(10), progress=Progress(1, 10, NOW, 0.1)),
        job_with(ended(1, Ending.TIMEOUT)),
    ]
    two_places = replace(ORDER, script="#!/bin/sh\n", run_folder=str(tmp_path), places=(PLACE, FAST))
    moving = replace(running_since(10), tried_at=NOW)
    relief = replace(running_since(1), number=2, takes_over=1, place=FAST)
    waiting = SubJob(1, "k1", PLACE, cluster_job_id="1", tried_at=NOW)
    situations += [
        job_with(*sub_jobs, order=two_places, progress=Progress(1, 100, NOW, 0.001))
        for sub_jobs in ([moving], [moving, relief], [waiting])
    ]
    known = {
        name for job in situations for name in facts_of(job, NOW, lambda place: 0.0 if place == FAST else 60.0)
    }
    assert known == set(FACTS)


@pytest.mark.parametrize(
    ("status", "ending"),
    [
        (JobStatus("1", Outcome.FAILED, exit_code=85), Ending.CONTINUED),
        (JobStatus("1", Outcome.FAILED, signal=10), Ending.CONTINUED),
        (JobStatus("1", Outcome.FAILED, exit_code=138), Ending.CONTINUED),
        (JobStatus("1", Outcome.FAILED, exit_code=137), Ending.OUT_OF_MEMORY),
        (JobStatus("1", Outcome.FAILED, exit_code=1, max_rss_bytes=101, memory_bytes=100), Ending.OUT_OF_MEMORY),
        (JobStatus("1", Outcome.FAILED, exit_code=1, max_rss_bytes=99, memory_bytes=100), Ending.FAILED),
        (JobStatus("1", Outcome.OUT_OF_MEMORY), Ending.OUT_OF_MEMORY),
        (JobStatus("1", Outcome.CANCELLED), Ending.CANCELLED),
    ],
)
def test_endings_are_recognised(status: JobStatus, ending: Ending) -> None:
    assert ending_of(status)[0] is ending


def test_the_words_of_a_gpu_that_ran_out_of_memory_are_understood(tmp_path: Path) -> None:
    output = tmp_path / "output-1.txt"
    output.write_text("x" * 100_000 + "\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB\n")
    assert ending_of(JobStatus("1", Outcome.FAILED, exit_code=1), output)[0] is Ending.OUT_OF_MEMORY
    output.write_text("CUDA out of memory" + "x" * 100_000)  # long before the end
    assert ending_of(JobStatus("1", Outcome.FAILED, exit_code=1), output)[0] is Ending.FAILED
