"""What stands in slurm.conf."""

from __future__ import annotations

import os
import pwd
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path


def configuration(
    folder: Path,
    ports: range,
    *,
    node: str,
    rate: int,
    parameters: Mapping[str, object | None],
    config: Mapping[str, object],
    partitions: Sequence[str],
) -> str:
    """Return the text of slurm.conf: the first port is the controller's, every other that of a node.

    `node` says what a node has, like `CPUs=4 RealMemory=1000`.
    """
    lines = {**_base(folder, ports[0], rate), **_scheduling(parameters), **config}
    span = f"[{ports[1]}-{ports[-1]}]" if len(ports) > 2 else str(ports[1])
    names = f"n[1-{len(ports) - 1}]" if len(ports) > 2 else "n1"
    nodes = f"NodeName={names} NodeHostname=localhost NodeAddr=127.0.0.1 Port={span} {node}"
    partitions = partitions or ["PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP"]
    return "\n".join([*(f"{key}={value}" for key, value in lines.items()), nodes, *partitions, ""])


def _scheduling(parameters: Mapping[str, object | None]) -> dict[str, str]:
    given = ",".join(key if value is None else f"{key}={value}" for key, value in parameters.items())
    return {
        "SelectType": "select/cons_tres",
        "SelectTypeParameters": "CR_CPU",
        "SchedulerType": "sched/backfill",
        "PriorityType": "priority/basic",
        **({"SchedulerParameters": given} if given else {}),
    }


def _base(folder: Path, port: int, rate: int) -> dict[str, object]:
    user = _user()
    return {
        "ClusterName": "virtual",
        "SlurmctldHost": f"{socket.gethostname().partition('.')[0]}(127.0.0.1)",
        "SlurmctldPort": port,
        "SlurmUser": user,
        "SlurmdUser": user,
        "AuthType": "auth/munge",
        "CredType": "cred/munge",
        "AuthInfo": f"socket={folder}/munge/sock",
        "CommunicationParameters": "NoInAddrAny,NoCtldInAddrAny",
        "StateSaveLocation": f"{folder}/state",
        "SlurmdSpoolDir": f"{folder}/spool/%n",
        "SlurmctldPidFile": f"{folder}/run/slurmctld.pid",
        "SlurmdPidFile": f"{folder}/run/slurmd.%n.pid",
        "SlurmctldLogFile": f"{folder}/log/slurmctld.log",
        "SlurmdLogFile": f"{folder}/log/slurmd.%n.log",
        "SlurmdDebug": "error",
        "SlurmdParameters": "config_overrides",
        "ProctrackType": "proctrack/linuxproc",
        "TaskPlugin": "task/none",
        "JobAcctGatherType": "jobacct_gather/none",
        "MpiDefault": "none",
        "MailProg": "/bin/true",
        "AccountingStorageType": "accounting_storage/none",
        "JobCompType": "jobcomp/none",
        "MinJobAge": 1_000_000,
        "ReturnToService": 2,
        "TreeWidth": 65_533,
        # Real seconds that a busy machine may need, on the cluster's clock.
        "SlurmdTimeout": 300 * rate,
        "MessageTimeout": min(10 * rate, 100),
        "TCPTimeout": 2 * rate,
    }


def _user() -> str:
    """Return who runs this, by name or, where there is none, by number; the environment may say otherwise."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())
