"""Contract suites that every kind of a family must pass, ours and other packages' alike.

A suite is a class of pytest tests. Subclass it in a test module, fill in the class attributes, and pytest runs
the whole contract against your kind:

    from presage.testing import ReaderContract

    class TestMyLog(ReaderContract):
        format = "mylog"
        sample = Path(__file__).parent / "mylog.txt"
        jobs = 3
"""

from __future__ import annotations

from presage.testing.readers import ReaderContract
from presage.testing.traces import make_job, make_trace
from presage.testing.workloads import WorkloadContract
from presage.testing.writers import WriterContract

__all__ = ["ReaderContract", "WorkloadContract", "WriterContract", "make_job", "make_trace"]
