"""A real Slurm of our own on one machine: private, on loopback, gone when the test is over.

    from presage.testing import SlurmCluster, missing_for_slurm

    with SlurmCluster(nodes=4, rate=20) as slurm:
        job = slurm.submit(["--nodes=2", "--time=5"], "sleep 60")
        slurm.wait_for_jobs()
        print(slurm.jobs()[job].start)

Every daemon is a child of this process and is stopped by its handle; job steps that outlive their daemon are
found by the path of the configuration in their environment, which no other cluster has. There are no cgroups, and
neither root nor a `slurm` user is needed: SlurmUser and SlurmdUser are whoever runs it.

With `rate` the whole cluster lives on a clock that runs that many times as fast (package faketime). Jobs, limits,
intervals and recorded times are in cluster time; time-outs of this module are real seconds. The controller's own
computing takes `rate` times as long in cluster time, so take the lowest rate that is fast enough.
"""

from __future__ import annotations

from presage.testing.slurm.cluster import SlurmCluster, missing_for_slurm
from presage.testing.slurm.jobs import SlurmJob

__all__ = ["SlurmCluster", "SlurmJob", "missing_for_slurm"]
