"""What training loops use: progress, checkpoints and a way to go on in the next job.

It imports no other room: numpy and safetensors are all it needs. `presage.client.lightning` and
`presage.client.keras` are the same for those two.
"""

from __future__ import annotations

from presage.client.checkpoints import Checkpoint, load_checkpoint, save_checkpoint
from presage.client.events import Event, read_events
from presage.client.run import EXIT_TO_BE_CONTINUED, FOLDER_VARIABLE, HasState, Run, track

__all__ = [
    "EXIT_TO_BE_CONTINUED",
    "FOLDER_VARIABLE",
    "Checkpoint",
    "Event",
    "HasState",
    "Run",
    "load_checkpoint",
    "read_events",
    "save_checkpoint",
    "track",
]
