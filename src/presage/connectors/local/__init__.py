"""Processes on this machine, with limits and a queue.

The state is in files below one folder, and every running job has a small process of its own that watches it: jobs
outlive whoever submitted them, and any process that knows the folder can find, poll and cancel them.

    queue.json          how many cores and GPUs jobs may have together
    lock                held while the queue is changed
    pending/ID          the job waits; running/ID: it has been started
    keys/KEY            the id of the job that was submitted with this key
    jobs/ID/            job.json (what was asked for), status.json (how it stands), script, runner.json, output.txt

Whoever ends a job, submits one or asks for statuses starts the next ones that fit: nothing runs while all wait.
Modules other than `connector` use the standard library alone, so that the watching process is small.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from presage.connectors.local.connector import LocalConnector

__all__ = ["LocalConnector"]


def __getattr__(name: str) -> object:
    """Load the connector only when somebody asks: the process that watches a job does without."""
    if name == "LocalConnector":
        from presage.connectors.local.connector import LocalConnector

        return LocalConnector
    raise AttributeError(f"module 'presage.connectors.local' has no attribute {name!r}")
