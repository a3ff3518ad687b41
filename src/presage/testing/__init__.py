"""Contract suites that every kind of a family must pass, ours and other packages' alike.

A suite is a class of pytest tests. Subclass it in a test module, fill in the class attributes, and pytest runs
the whole contract against your kind:

    from presage.testing import ReaderContract

    class TestMyLog(ReaderContract):
        format = "mylog"
        sample = Path(__file__).parent / "mylog.txt"
        jobs = 3

Besides, there is a real Slurm to test against, `SlurmCluster`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from presage.testing.readers import ReaderContract
from presage.testing.traces import make_job, make_trace
from presage.testing.workloads import WorkloadContract
from presage.testing.writers import WriterContract

if TYPE_CHECKING:
    from presage.testing.baselines import BaselineContract
    from presage.testing.connectors import ConnectorContract
    from presage.testing.estimators import EstimatorContract
    from presage.testing.slurm import SlurmCluster, SlurmJob, missing_for_slurm
    from presage.testing.synthesizers import SynthesizerContract

__all__ = [
    "BaselineContract",
    "ConnectorContract",
    "EstimatorContract",
    "ReaderContract",
    "SlurmCluster",
    "SlurmJob",
    "SynthesizerContract",
    "WorkloadContract",
    "WriterContract",
    "make_job",
    "make_trace",
    "missing_for_slurm",
]


def __getattr__(name: str) -> object:
    """Load what needs more, a real Slurm, the simulator or synthesizers, only when somebody asks for it."""
    if name == "BaselineContract":
        from presage.testing.baselines import BaselineContract

        return BaselineContract
    if name == "ConnectorContract":
        from presage.testing.connectors import ConnectorContract

        return ConnectorContract
    if name == "EstimatorContract":
        from presage.testing.estimators import EstimatorContract

        return EstimatorContract
    if name == "SynthesizerContract":
        from presage.testing.synthesizers import SynthesizerContract

        return SynthesizerContract
    if name in {"SlurmCluster", "SlurmJob", "missing_for_slurm"}:
        from presage.testing import slurm

        return getattr(slurm, name)
    raise AttributeError(f"module 'presage.testing' has no attribute {name!r}")
