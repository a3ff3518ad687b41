"""When jobs start, in Slurm's own opinion, which takes every job for as long as its limit."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from typing import TYPE_CHECKING

from presage.connectors.slurm.jobs import time_of
from presage.connectors.slurm.scripts import sbatch_arguments

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import datetime

    from presage.connectors._base import Submission
    from presage.connectors.slurm.commands import SlurmCommands

_TO_START = re.compile(r"to start at (\d+)")


def start_estimate(commands: SlurmCommands, submission: Submission) -> datetime | None:
    """Return when `sbatch --test-only` says that the job would start, None if it does not say."""
    # Without its environment, which does not matter here and would take ours from sbatch, and the clock with it.
    with sbatch_arguments(replace(submission, environment={}), commands.ambient()) as arguments:
        match = _TO_START.search(commands.remark("sbatch", "--test-only", *arguments))
    return time_of(match[1]) if match else None


def expected_starts(commands: SlurmCommands, job_ids: Collection[str]) -> dict[str, datetime]:
    """Return when `squeue --start` expects the jobs to start; those it has no time for are left out."""
    text = commands.run("squeue", "--noheader", "--start", f"--user={os.geteuid()}", "--format=%A|%S")
    pairs = (line.partition("|") for line in text.splitlines())
    found = {job_id: time_of(told) for job_id, _, told in pairs if job_id in job_ids}
    return {job_id: start for job_id, start in found.items() if start}
