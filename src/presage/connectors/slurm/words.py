"""What Slurm's errors mean, which its commands and slurmrestd say in the same words."""

from __future__ import annotations

import re

UNREACHABLE = (
    "Unable to contact slurm controller",
    "Could not establish a configuration source",
    "Connection refused",
    "Connection timed out",
    "Socket timed out",
    "Zero Bytes were transmitted",
    "Unable to connect to database",
    "Unable to contact slurm",
    "Invalid Protocol",
    "backup controller",
    "Transport endpoint",
)
"""Of these, what was asked for may have been done all the same: a busy controller may have taken the job."""
# A full cluster (MaxJobCount), a controller out of threads, and limits on how many jobs may be in the queue. All
# of them are found out before a job is made. A limit on a job's size is none of these: it will not go away.
_BUSY = re.compile(
    r"Resource temporarily unavailable|temporarily unable to accept job|job queue full"
    r"|(?:QOS|Assoc)(?:Grp|Max)SubmitJobs?(?:Per(?:User|Account))?Limit"
)
POLICY = "Job violates accounting/QOS policy"
"""Of any limit of the accounting; only the commands also name the limit."""


def is_busy(words: str) -> bool:
    """Return whether a refusal is only for now."""
    return _BUSY.search(words) is not None
