from __future__ import annotations

import pytest

from presage.clusters.systems import Limits, Scheduler
from presage.connectors._gpus import gpu_name
from presage.connectors.slurm.commands import SlurmCommands
from presage.connectors.slurm.discovery import discover, make_system, parse_config, parse_line
from presage.connectors.slurm.limits import parse_associations, parse_qualities, restricted
from presage.errors import ClusterUnreachableError, ConnectorError, InputError

MIB = 2**20
HOUR_S = 3600.0

# Of an invented cluster: 3 processor nodes of two memories, 2 with GPUs, one that is not there yet.
NODES = """\
NodeName=c01 Arch=x86_64 CoresPerSocket=20 CPUAlloc=0 CPUEfctv=40 CPUTot=40 CPULoad=0.01 AvailableFeatures=skylake,ib,rack1 ActiveFeatures=skylake,ib,rack1 Gres=(null) NodeAddr=c01 NodeHostName=c01 Version=22.05.8 OS=Linux 5.14.0 #1 SMP Mon Jan 1 00:00:00 UTC 2024 RealMemory=192000 AllocMem=0 FreeMem=100 Sockets=2 Boards=1 State=IDLE ThreadsPerCore=1 TmpDisk=800000 Weight=1 Partitions=batch,debug
NodeName=c02 Arch=x86_64 CoresPerSocket=20 CPUAlloc=0 CPUEfctv=40 CPUTot=40 CPULoad=0.01 AvailableFeatures=skylake,ib,rack2 Gres=(null) RealMemory=192000 Sockets=2 Boards=1 State=DOWN+DRAIN ThreadsPerCore=1 TmpDisk=800000 Partitions=batch Reason=RealMemory=64000 is too low [root@2024-01-01T00:00:00]
NodeName=c03 Arch=x86_64 CoresPerSocket=20 CPUTot=40 AvailableFeatures=skylake Gres=(null) RealMemory=768000 MemSpecLimit=8000 Sockets=2 Boards=1 State=MIXED TmpDisk=0 Partitions=batch
NodeName=g01 Arch=x86_64 CoresPerSocket=24 CPUEfctv=48 CPUTot=48 AvailableFeatures=(null) Gres=gpu:nvidia_a100_80gb_pcie:4(S:0-1),shard:16 RealMemory=512000 Sockets=2 Boards=1 State=IDLE TmpDisk=0 Partitions=gpu,scavenge
NodeName=g02 Arch=x86_64 CoresPerSocket=24 CPUEfctv=48 CPUTot=48 AvailableFeatures=(null) Gres=gpu:nvidia_a100_80gb_pcie:4(S:0-1),shard:16 RealMemory=512000 Sockets=2 Boards=1 State=IDLE TmpDisk=0 Partitions=gpu,scavenge
NodeName=f01 CPUTot=1 RealMemory=1 Sockets=1 State=FUTURE
"""  # noqa: E501  (lines as Slurm prints them)
PARTITIONS = """\
PartitionName=batch AllowGroups=ALL Default=YES QoS=N/A DefaultTime=01:00:00 MaxNodes=UNLIMITED MaxTime=4-00:00:00 MinNodes=0 Nodes=c[01-03] PriorityTier=10 RootOnly=NO OverSubscribe=NO PreemptMode=OFF State=UP TotalNodes=3 MaxMemPerNode=UNLIMITED
PartitionName=debug Default=NO QoS=debug DefaultTime=NONE MaxNodes=2 MaxTime=01:00:00 MinNodes=1 Nodes=c01 PriorityTier=20 RootOnly=NO OverSubscribe=EXCLUSIVE PreemptMode=OFF State=UP MaxMemPerNode=64000
PartitionName=gpu QoS=gpu DefaultTime=NONE MaxNodes=UNLIMITED MaxTime=UNLIMITED MinNodes=0 Nodes=g[01-02] PriorityTier=10 OverSubscribe=NO PreemptMode=REQUEUE State=UP
PartitionName=scavenge QoS=N/A MaxNodes=UNLIMITED MaxTime=7-00:00:00 MinNodes=0 Nodes=g[01-02] PriorityTier=1 OverSubscribe=NO PreemptMode=REQUEUE State=UP
PartitionName=old QoS=N/A MaxNodes=1 MaxTime=10 Nodes=c02 PriorityTier=1 State=INACTIVE
PartitionName=empty Nodes=(null) State=UP
"""  # noqa: E501
QUALITIES = """\
Name|MaxWall|MaxTRES|MaxTRESPU|MaxJobsPU|MaxSubmitPU|MinTRES|Preempt
normal|||cpu=200|20|100||
debug|00:30:00|node=1|||2||
gpu|2-00:00:00|gres/gpu=6,node=2|gres/gpu=8|4||gres/gpu=1|
"""
ASSOCIATIONS = """\
Account|Partition|MaxJobs|MaxSubmit|MaxWall|MaxTRES|Def QOS
lab||10|||cpu=100|normal
lab|gpu|2||1-00:00:00||
guest||5||||
"""
CONFIG = """\
Configuration data as of 2026-11-16T17:00:00
AccountingStorageEnforce = associations,limits,qos
AccountingStorageType   = accounting_storage/slurmdbd
ClusterName             = borealis
PreemptType             = preempt/partition_prio
PriorityType            = priority/multifactor
SLURM_VERSION           = 22.05.8
"""


def test_nodes_become_node_types() -> None:
    system = make_system(None, NODES, PARTITIONS, parse_config(CONFIG))
    assert (system.name, system.scheduler) == ("borealis", Scheduler.SLURM)
    small, gpu, large = (system.node_type(name) for name in ("40c-187g", "48c-500g-4xa100-80", "40c-742g"))
    assert len(system.node_types) == 3
    assert (small.cores, small.sockets, small.count, small.memory_bytes) == (40, 2, 2, 192_000 * MIB)
    assert small.features == ("skylake", "ib")
    assert small.local_disk_bytes == 800_000 * MIB
    assert (large.memory_bytes, large.local_disk_bytes) == (760_000 * MIB, None)
    assert (gpu.gpus, gpu.gpu, gpu.count, gpu.features) == (4, "a100-80", 2, ())
    model = system.gpu_model(gpu)
    assert model is not None
    assert model.memory_bytes == 80 * 10**9
    assert system.policies["priority"] == "multifactor"


def test_partitions_have_their_limits() -> None:
    system = make_system("mine", NODES, PARTITIONS, parse_config(CONFIG))
    assert system.name == "mine"
    batch, debug, gpu, scavenge, old, empty = system.partitions
    assert batch.node_types == ("40c-187g", "40c-742g")
    assert batch.limits == Limits(max_nodes=3, max_walltime_s=96 * HOUR_S, default_walltime_s=HOUR_S)
    assert (debug.exclusive, debug.development, debug.limits.max_memory_bytes) == (True, True, 64_000 * MIB)
    assert debug.limits.max_nodes == 1  # it has no more, whatever it allows
    assert (gpu.limits.max_walltime_s, gpu.development, gpu.exclusive) == (None, False, False)
    assert [part.preemptible for part in system.partitions] == [False, False, False, True, False, False]
    assert scavenge.limits.max_walltime_s == 168 * HOUR_S
    assert (old.enabled, empty.enabled, batch.enabled) == (False, False, True)
    assert old.limits.max_walltime_s == 600.0


def test_the_accounting_limits_further() -> None:
    system = make_system(None, NODES, PARTITIONS, parse_config(CONFIG), QUALITIES, ASSOCIATIONS)
    batch, debug, gpu = (system.partition(name).limits for name in ("batch", "debug", "gpu"))
    # The usual QOS, and what both accounts of the user have: of 10 and 5 jobs the larger.
    assert (batch.user_cores, batch.user_running_jobs, batch.user_submitted_jobs) == (200, 10, 100)
    assert batch.max_cores is None
    assert (debug.max_walltime_s, debug.max_nodes, debug.user_submitted_jobs) == (1800.0, 1, 2)
    assert (gpu.max_gpus, gpu.user_gpus, gpu.max_walltime_s, gpu.user_running_jobs) == (6, 8, 86_400.0, 2)


def test_preemption_by_quality() -> None:
    config = {**parse_config(CONFIG), "PreemptType": "preempt/qos"}
    qualities = "Name|Preempt\nurgent|gpu\ngpu|\n"
    system = make_system(None, NODES, PARTITIONS, config, qualities)
    assert [part.name for part in system.partitions if part.preemptible] == ["gpu"]


def test_of_two_limits_the_stricter_holds() -> None:
    one = Limits(min_nodes=1, max_nodes=4, max_walltime_s=60.0, default_walltime_s=30.0)
    other = Limits(min_nodes=2, max_nodes=8, user_gpus=3, default_walltime_s=10.0)
    expected = Limits(min_nodes=2, max_nodes=4, max_walltime_s=60.0, default_walltime_s=30.0, user_gpus=3)
    assert restricted(one, other) == expected


def test_values_may_have_blanks_and_the_first_of_two_counts() -> None:
    entries = parse_line("OS=Linux 5.14 #1 SMP  RealMemory=100 Reason=RealMemory=5 is low CfgTRES=cpu=1,mem=2G")
    assert entries["OS"] == "Linux 5.14 #1 SMP"
    assert (entries["RealMemory"], entries["CfgTRES"]) == ("100", "cpu=1,mem=2G")


@pytest.mark.parametrize("text", ["", "\n", "No nodes in the system", "NodeName= CPUTot=x", "a=b|c\n=\n\0"])
def test_nonsense_is_one_clear_error(text: str) -> None:
    with pytest.raises(InputError, match="names no node"):
        make_system(None, text, text, parse_config(text), text, text)
    assert parse_qualities(text) == {}
    assert parse_associations(text) == {}


class Answers(SlurmCommands):
    """Commands that answer with the invented cluster's texts, but for its accounting, which is down."""

    def run(self, program: str, *arguments: str) -> str:
        if program == "sacctmgr":
            raise ClusterUnreachableError("Nobody answers")
        return {"node": NODES, "partition": PARTITIONS, "config": CONFIG}[arguments[1]]


def test_an_accounting_that_is_down_costs_its_limits_only(caplog: pytest.LogCaptureFixture) -> None:
    system = discover(commands=Answers({}))
    assert system.partition("debug").limits.max_walltime_s == HOUR_S
    assert "Left out the limits" in caplog.text


def test_where_there_is_no_slurm_it_says_so(tmp_path_factory: pytest.TempPathFactory) -> None:
    nowhere = {"PATH": str(tmp_path_factory.mktemp("empty"))}
    with pytest.raises(ConnectorError, match=r"scontrol cannot be run here.*login node"):
        discover(commands=SlurmCommands(nowhere))


@pytest.mark.parametrize(
    ("text", "memory_gib", "expected"),
    [
        ("a100", None, "a100"),
        ("A100-SXM4-40GB", None, "a100-40"),
        ("NVIDIA-A100-SXM4-80GB", None, "a100-80"),
        ("NVIDIA-A100-PCIE", 80, "a100-80"),
        ("tesla_v100", 32, "v100-32"),
        ("v100-32", None, "v100-32"),
        ("nvidia-tesla-t4", None, "t4"),
        ("NVIDIA-H100-80GB-HBM3", None, "h100"),
        ("NVIDIA-L40S", None, "nvidia-l40s"),
        ("MI300X", None, "mi300x"),
        ("rtx6000", None, "rtx6000"),
        (None, None, ""),
    ],
)
def test_gpus_get_the_names_that_we_know(text: str | None, memory_gib: int | None, expected: str) -> None:
    assert gpu_name(text, memory_gib * 2**30 if memory_gib else None) == expected
