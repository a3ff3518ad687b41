"""Slurm's accounting: a database of our own on a Unix socket, and slurmdbd in front of it."""

from __future__ import annotations

import os
import pwd
import socket
from collections.abc import Mapping
from pathlib import Path

PROGRAMS = ("mariadb-install-db", "mariadbd", "mariadb-admin", "slurmdbd", "sacctmgr", "sacct")
PACKAGES = "slurmdbd mariadb-server"
# The database stays on the true clock: it needs none, and its own waiting would be stretched.
_TRUE_CLOCK = ("env", "-u", "LD_PRELOAD")
_SIZES = ("--innodb-log-file-size=16M",)


def install_command(folder: Path) -> list[str]:
    """Return the command that makes an empty database."""
    return [
        *_TRUE_CLOCK, "mariadb-install-db", "--no-defaults", f"--user={_user()}", f"--datadir={folder}/db/data",
        "--skip-test-db", "--auth-root-authentication-method=normal", *_SIZES,
    ]  # fmt: skip


def database_command(folder: Path) -> list[str]:
    """Return the command that runs the database; what is written is safe enough for a test."""
    return [
        *_TRUE_CLOCK, "mariadbd", "--no-defaults", f"--user={_user()}", f"--datadir={folder}/db/data",
        f"--socket={folder}/db/sock", f"--pid-file={folder}/db/pid", "--skip-networking", *_SIZES,
        "--innodb-buffer-pool-size=64M", "--innodb-lock-wait-timeout=900", "--innodb-flush-log-at-trx-commit=0",
        "--innodb-doublewrite=0", "--skip-log-bin", "--performance-schema=0",
        f"--log-error={folder}/log/mariadb.log",
    ]  # fmt: skip


def ping_command(folder: Path) -> list[str]:
    """Return the command that succeeds once the database answers."""
    return [*_TRUE_CLOCK, "mariadb-admin", "--no-defaults", "-S", f"{folder}/db/sock", "-u", "root", "ping"]


def write_configuration(folder: Path, port: int, more: Mapping[str, object]) -> None:
    """Write slurmdbd.conf, which nobody else may read, with more lines."""
    lines = {
        "DbdHost": socket.gethostname().partition(".")[0],
        "DbdAddr": "127.0.0.1",
        "DbdPort": port,
        "SlurmUser": _user(),
        "AuthType": "auth/munge",
        "AuthInfo": f"socket={folder}/munge/sock",
        "PidFile": f"{folder}/run/slurmdbd.pid",
        "LogFile": f"{folder}/log/slurmdbd.log",
        "StorageType": "accounting_storage/mysql",
        "StorageHost": "localhost",
        "StorageUser": "root",
        "StorageLoc": "slurm_acct",
        "CommunicationParameters": "NoInAddrAny",
        **more,
    }
    path = folder / "slurmdbd.conf"
    path.touch(mode=0o600)
    path.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))


def lines_of(folder: Path, port: int) -> dict[str, object]:
    """Return what slurm.conf says of the accounting; memory is looked at every second."""
    return {
        "AccountingStorageType": "accounting_storage/slurmdbd",
        "AccountingStorageHost": "127.0.0.1",
        "AccountingStoragePort": port,
        "AccountingStoragePass": f"{folder}/munge/sock",
        "AccountingStoreFlags": "job_comment",
        "JobAcctGatherType": "jobacct_gather/linux",
        "JobAcctGatherFrequency": "task=1",
    }


def _user() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())
