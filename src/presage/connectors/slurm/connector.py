"""Slurm as a connector."""

from __future__ import annotations

from typing import TYPE_CHECKING

from presage.connectors._base import (
    Connector,
    Discovers,
    EstimatesStarts,
    HoldsJobs,
    JobStatus,
    ReadsHistory,
    SharesFiles,
    SignalsJobs,
    Submission,
    check_signal,
)
from presage.connectors.slurm import discovery, history, jobs, starts
from presage.connectors.slurm.commands import TIMEOUT_S, SlurmCommands
from presage.connectors.slurm.scripts import is_job_id, sbatch_arguments
from presage.errors import ClusterRefusedError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from datetime import datetime

    from presage.clusters.systems import System
    from presage.traces import Trace

_NOT_AN_ERROR = (
    "Invalid job id", "already completing or completed", "Job is not pending", "Job/step already",
    "has already finished", "Requested operation is presently disabled",
)  # fmt: skip


class SlurmConnector(Connector, Discovers, EstimatesStarts, ReadsHistory, SignalsJobs, HoldsJobs, SharesFiles):
    """The Slurm cluster that this machine belongs to, asked in the name of whoever runs this.

    `environment` is what the commands run in, this process's own without it; a job inherits it, less what begins
    with PRESAGE_. The key of a submission stands in the job's comment.
    """

    def __init__(self, environment: Mapping[str, str] | None = None, *, timeout_s: float = TIMEOUT_S) -> None:
        self.commands = SlurmCommands(environment, timeout_s)

    def submit(self, submission: Submission) -> str:
        with sbatch_arguments(submission, self.commands.ambient()) as arguments:
            told = self.commands.submit("--parsable", *arguments).strip()
        job_id = told.splitlines()[-1].partition(";")[0] if told else ""
        if not is_job_id(job_id):
            raise ClusterRefusedError(f"sbatch answered {told[:80]!r} where a job's id was expected")
        return job_id

    def statuses(self, job_ids: Collection[str]) -> dict[str, JobStatus]:
        return jobs.statuses(self.commands, job_ids)

    def cancel(self, job_ids: Collection[str]) -> None:
        self._tell("scancel", (), job_ids)

    def find(self, key: str) -> str | None:
        return jobs.find(self.commands, key)

    def discover(self, name: str | None = None) -> System:
        return discovery.discover(name, commands=self.commands)

    def start_estimate(self, submission: Submission) -> datetime | None:
        return starts.start_estimate(self.commands, submission)

    def expected_starts(self, job_ids: Collection[str]) -> dict[str, datetime]:
        return starts.expected_starts(self.commands, job_ids)

    def history(self, since: datetime, user: str | None = None) -> Trace:
        return history.history(self.commands, since, user)

    def signal(self, job_ids: Collection[str], name: str) -> None:
        check_signal(name)
        self._tell("scancel", ("--batch", f"--signal={name}"), job_ids)

    def hold(self, job_ids: Collection[str]) -> None:
        self._tell("scontrol", ("hold",), job_ids, joined=True)

    def release(self, job_ids: Collection[str]) -> None:
        self._tell("scontrol", ("release",), job_ids, joined=True)

    def _tell(
        self, program: str, options: tuple[str, ...], job_ids: Collection[str], *, joined: bool = False
    ) -> None:
        """Run a command on jobs; that some are unknown or have ended already is no error."""
        known = [job_id for job_id in dict.fromkeys(job_ids) if is_job_id(job_id)]
        for start in range(0, len(known), jobs.IDS_PER_CALL):
            chosen = known[start : start + jobs.IDS_PER_CALL]
            try:
                self.commands.run(program, *options, *([",".join(chosen)] if joined else chosen))
            except ClusterRefusedError as error:
                if not all(any(mark in line for mark in _NOT_AN_ERROR) for line in error.problem.splitlines()):
                    raise
