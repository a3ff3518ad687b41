from __future__ import annotations

from datetime import UTC, datetime

from presage.connectors._base import JobStatus
from presage.orchestrator.actions import successors
from presage.orchestrator.jobs import Ending, ManagedJob, Order, Phase, Place, SubJob
from presage.traces.schema import Outcome

PLACE = Place("local", walltime_s=10)


def sub_job(number: int, state: Outcome, follows: str | None = None, ending: Ending | None = None) -> SubJob:
    status = JobStatus(str(number), state)
    return SubJob(
        number, f"key-{number}", PLACE, cluster_job_id=str(number), status=status, follows=follows, ending=ending
    )


def job_of(*sub_jobs: SubJob) -> ManagedJob:
    order = Order("train", "#!/bin/sh\n", (PLACE,), run_folder="/run")
    return ManagedJob("j" + "0" * 11, "ann", order, Phase.ACTIVE, datetime.now(UTC), sub_jobs=sub_jobs)


def test_a_job_that_runs_is_no_successor_although_it_once_was() -> None:
    first = sub_job(1, Outcome.FAILED, ending=Ending.CONTINUED)
    second = sub_job(2, Outcome.RUNNING, follows="1")
    third = sub_job(3, Outcome.PENDING, follows="2")
    assert [each.number for each in successors(job_of(first, second, third))] == [3]
    assert successors(job_of(first, second)) == []


def test_one_that_waits_behind_a_job_that_ended_is_a_successor() -> None:
    first = sub_job(1, Outcome.OUT_OF_MEMORY, ending=Ending.OUT_OF_MEMORY)
    second = sub_job(2, Outcome.PENDING, follows="1")
    assert [each.number for each in successors(job_of(first, second))] == [2]
