"""A cluster in simulated time, for demonstrations and tests: partitions of equal nodes, each with its own queue.

In a partition, who came first and fits starts first. Nothing is executed. What a job would do is said in its
environment:

    PRESAGE_SIMULATED_WORK_S          how long all of its work takes, at speed 1 [60]
    PRESAGE_SIMULATED_SCALING         by this power of their number, more nodes are faster [0: they are not]
    PRESAGE_SIMULATED_CHECKPOINT_S    how often it saves, if it has a PRESAGE_RUN_FOLDER to save in [60]
    PRESAGE_SIMULATED_MEMORY_BYTES    what it needs at its peak [nothing]
    PRESAGE_SIMULATED_EXIT_CODE       what it ends with when its work is done [0]

Work is remembered by run folder, as checkpoints are: a job that is cut off at its limit leaves what it saved to
the next one, wherever that runs. One that is told ahead of its limit (`Submission.signal`), or at any time by the
signal USR1, saves all and ends with EXIT_TO_BE_CONTINUED.

The state is one SQLite file. Any number of processes may use it, and any of them may be killed at any time: a call
is one transaction. Time is that of the clock of this machine, `rate` times as fast since the file was made.
"""

from __future__ import annotations

from presage.connectors.simulated.connector import SimulatedConnector
from presage.connectors.simulated.partitions import SimulatedPartition
from presage.connectors.simulated.work import CHECKPOINT, EXIT_CODE, MEMORY, SCALING, WORK

__all__ = ["CHECKPOINT", "EXIT_CODE", "MEMORY", "SCALING", "WORK", "SimulatedConnector", "SimulatedPartition"]
