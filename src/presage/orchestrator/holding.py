"""Keeping a job from working while another of the same run does.

Two jobs of one run may be in the cluster at once, so that one waits for better nodes while the other works. The
one that starts holds itself until the other has saved: a file in the folder of the run is in its way, made before
they could meet, and taken away by the plane. Two lines before the job's own script look for it.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from presage.client.holds import hold_file

if TYPE_CHECKING:
    from presage.orchestrator.jobs import ManagedJob, Order

_SHELL = re.compile(r"#!\s*(/\S*/)?(env\s+)?(/\S*/)?(ba|da|k|z)?sh\b")
_MOST_IN_VAIN = 3
"""Jobs that could not be put beside another after all, as on a full disk, before nobody tries it again."""
_LINES = """\
# Until the job before it has saved:
while [ -e "$PRESAGE_RUN_FOLDER/hold-$PRESAGE_SUB_JOB" ]; do sleep 1; done
"""


def is_holdable(order: Order) -> bool:
    """Return whether jobs of an order can be told to hold: resumable ones with a choice of places, in a shell."""
    return order.is_resumable and len(order.places) > 1 and _SHELL.match(order.script) is not None


def can_hold(job: ManagedJob) -> bool:
    """Return whether the plane can keep a job of this run from working: its folder has to be within reach."""
    folder = job.order.run_folder
    in_vain = sum(each.is_cancelled_by_us and each.cluster_job_id is None for each in job.sub_jobs)
    is_fit = is_holdable(job.order) and in_vain < _MOST_IN_VAIN
    return folder is not None and is_fit and os.access(folder, os.W_OK)


def script_that_holds(order: Order) -> str:
    """Return the script with the lines that look for the file, behind what the cluster reads at its top."""
    if not is_holdable(order):
        return order.script
    lines = [f"{line}\n" for line in order.script.split("\n")]
    top = next(
        (index for index, line in enumerate(lines) if line.strip() and not line.startswith("#")), len(lines)
    )
    return "".join([*lines[:top], _LINES, *lines[top:]])[:-1]


def hold(job: ManagedJob, number: int) -> None:
    """Put the file in the way of a sub-job. Raises OSError."""
    hold_file(job.order.run_folder or "", number).touch()


def let_go(job: ManagedJob, number: int) -> None:
    """Take the file away, if it is there. Raises OSError."""
    hold_file(job.order.run_folder or "", number).unlink(missing_ok=True)
