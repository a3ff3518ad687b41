"""A private PostgreSQL to test against: a server of its own in a temporary folder, on a free port."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Self

from presage.errors import PresageError

PACKAGE = "postgresql"
_VERSIONS = Path("/usr/lib/postgresql")
_USERS = ("postgres", "nobody")
_START_TIMEOUT_S = 60.0
_COMMAND_TIMEOUT_S = 120.0


def missing_for_postgres() -> str:
    """Return why no server can be started here, as a reason to skip a test; empty if one can."""
    if _programs() is None:
        return f"initdb and postgres not found; install {PACKAGE}"
    if find_spec("psycopg") is None:
        return "psycopg is not installed; install presage[postgres]"
    if os.geteuid() == 0 and _other_user() is None:
        return f"a server does not run as root, and none of the users {', '.join(_USERS)} exists"
    return ""


class PostgresServer:
    """A server with one database; a context manager.

    It listens on the loopback alone and trusts whoever comes, so it is for tests only.
    """

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        if reason := missing_for_postgres():
            raise PresageError(f"PostgreSQL cannot be started: {reason}")
        self._folder = Path(tempfile.mkdtemp(prefix="presage-postgres-"))
        try:
            self._start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def empty_database(self) -> str:
        """Return the URL of the database after everything in it was dropped, and everybody put out."""
        import psycopg

        with psycopg.connect(self._url, autocommit=True) as connection:
            # Not a database of its own for each: that is hundreds of files every time.
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE pid <> pg_backend_pid() AND datname = current_database()"
            )
            connection.execute("DROP SCHEMA public CASCADE")
            connection.execute("CREATE SCHEMA public")
        return self._url

    def restart(self, *, crash: bool = False, away_s: float = 0.0) -> None:
        """End the server and start it again on the same port with what it had; returns when it answers.

        As `pg_ctl restart -m fast` does, which ends all transactions in an orderly way; a crash is its
        `-m immediate`, after which the server recovers from its log.
        """
        self._end(signal.SIGQUIT if crash else signal.SIGINT)
        time.sleep(away_s)
        self._serve()

    def stop(self) -> None:
        """End the server and take its folder away."""
        self._end(signal.SIGQUIT)  # at once: nothing is kept anyway
        shutil.rmtree(self._folder, ignore_errors=True)

    def _end(self, how: signal.Signals) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(how)
            try:
                self._process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()

    @property
    def _url(self) -> str:
        return f"postgresql://presage@127.0.0.1:{self._port}/postgres"

    def _start(self) -> None:
        programs = _programs()
        user = _other_user() if os.geteuid() == 0 else None
        if programs is None:
            raise PresageError("PostgreSQL went away while it was started")
        if user is not None:
            os.chown(self._folder, user.pw_uid, user.pw_gid)
        data = str(self._folder / "data")
        make = [str(programs / "initdb"), "-D", data, "-U", "presage", "-A", "trust", "-E", "UTF8", "--no-sync"]
        done = subprocess.run(  # noqa: S603  (a program of the distribution)
            make, cwd=self._folder, capture_output=True, text=True, timeout=_COMMAND_TIMEOUT_S, check=False,
            user=user and user.pw_uid, group=user and user.pw_gid, extra_groups=[] if user else None,
        )  # fmt: skip
        if done.returncode:
            raise PresageError(f"initdb failed: {done.stderr.strip()[-500:]}")
        self._port = _free_port()
        self._user = user
        port = str(self._port)
        self._command = [str(programs / "postgres"), "-D", data, "-p", port, "-h", "127.0.0.1", "-k", ""]
        self._serve()

    def _serve(self) -> None:
        user = self._user
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603  (as above)
                [*self._command, "-c", "fsync=off"], cwd=self._folder, stdout=log, stderr=log,
                stdin=subprocess.DEVNULL,
                user=user and user.pw_uid, group=user and user.pw_gid, extra_groups=[] if user else None,
            )  # fmt: skip
        self._await()

    def _await(self) -> None:
        import psycopg

        end = time.monotonic() + _START_TIMEOUT_S
        while time.monotonic() < end and self._process is not None and self._process.poll() is None:
            try:
                psycopg.connect(self._url, connect_timeout=2).close()
            except psycopg.OperationalError:
                time.sleep(0.1)
            else:
                return
        told = (self._folder / "log").read_text(errors="replace")
        raise PresageError(f"The PostgreSQL server did not start: {told.strip()[-500:]}")


def _programs() -> Path | None:
    """Return the folder of the newest server that the distribution has, else that of the one on the path."""
    folders = sorted(_VERSIONS.glob("*/bin"), key=lambda path: path.parent.name.zfill(4), reverse=True)
    found = [folder for folder in folders if (folder / "initdb").exists() and (folder / "postgres").exists()]
    if found:
        return found[0]
    on_path = shutil.which("initdb")
    return Path(on_path).resolve().parent if on_path else None


def _other_user() -> pwd.struct_passwd | None:
    for name in _USERS:
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    return None


def _free_port() -> int:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        port: int = held.getsockname()[1]
        return port
