"""The cluster behind the fake: a few nodes, first come, first served, on a clock that may be fast."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from presage.connectors.tapis.payload import RATE_VARIABLE

ON_THE_WAY = ("PENDING", "PROCESSING_INPUTS", "STAGING_INPUTS", "STAGING_JOB", "SUBMITTING_JOB", "QUEUED")
FINAL = ("FINISHED", "FAILED", "CANCELLED")
DEFAULTS = {"nodeCount": 1, "coresPerNode": 1, "memoryMB": 100, "maxMinutes": 10}
_TICK_S = 0.02
_MINUTE_S = 60


@dataclass
class FakeJob:
    """A job as the service keeps it. `facts` are its attributes in the words of Tapis."""

    facts: dict[str, Any]
    parameters: Mapping[str, Any]
    folder: Path
    history: list[dict[str, Any]] = field(default_factory=list)
    process: subprocess.Popen[bytes] | None = None
    start_s: float | None = None
    outcome: tuple[str, str, str] | None = None
    """Status, condition and words that it ends with once its output is archived."""
    is_cancelled: bool = False
    entry_point: str = ""
    """Words of a shell that come before its arguments, as its image has them."""

    @property
    def status(self) -> str:
        """How it stands."""
        return str(self.facts["status"])

    def options(self) -> dict[str, str]:
        """What the scheduler was told."""
        words = (
            argument["arg"].replace("=", " ", 1).partition(" ") for argument in self._list("schedulerOptions")
        )
        return {name: value.strip() for name, _, value in words}

    def script(self, rate: float) -> str:
        """Return the script that starts it. Nothing is quoted: what a shell would change, it changes."""
        names = {"uuid": "JobUUID", "name": "JobName", "maxMinutes": "MaxMinutes"}
        own = {f"_tapis{name}": self.facts[fact] for fact, name in names.items()} | {RATE_VARIABLE: rate}
        given = {pair["key"]: pair["value"] for pair in self._list("envVariables")}
        exports = [f"export {name}={value}" for name, value in {**own, **given}.items()]
        command = " ".join([self.entry_point, *(argument["arg"] for argument in self._list("appArgs"))])
        return "\n".join(["#!/bin/sh", *exports, f"exec {command}", ""])

    def _list(self, name: str) -> list[dict[str, Any]]:
        return self.parameters.get(name) or []


class Machine:
    """Runs jobs in their order on `nodes` equal nodes. Its clock runs `rate` times as fast as others."""

    def __init__(self, folder: Path, nodes: int, rate: float) -> None:
        self.jobs: dict[str, FakeJob] = {}
        self.lock = threading.RLock()
        self._folder, self._nodes, self._rate = folder, nodes, rate
        self._began_s = time.time()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._live, daemon=True)
        self._thread.start()

    def now(self) -> str:
        """Return the time here."""
        return datetime.fromtimestamp(self._now_s(), UTC).isoformat().replace("+00:00", "Z")

    def submit(self, request: Mapping[str, Any], owner: str, tenant: str, entry_point: str = "") -> FakeJob:
        """Take a job over."""
        job_id = f"{uuid.uuid4()}-007"
        parameters = request.get("parameterSet") or {}
        folder = self._folder / job_id
        folder.mkdir(parents=True)
        with self.lock:
            facts = {
                **DEFAULTS,
                **{name: value for name, value in request.items() if name not in ("parameterSet", "notes")},
                "parameterSet": json.dumps(parameters),
                "notes": json.dumps(request.get("notes") or {}),
                "id": len(self.jobs) + 1,
                "uuid": job_id,
                "owner": owner,
                "tenant": tenant,
                "created": self.now(),
                "status": "PENDING",
                "jobType": "BATCH",
                "visible": True,
                "tags": list(request.get("tags") or []),
            }
            facts |= dict.fromkeys(("condition", "ended", "remoteJobId", "remoteStarted", "remoteEnded"))
            facts |= dict.fromkeys(("remoteSubmitted", "remoteResultInfo", "remoteOutcome", "lastMessage"))
            job = self.jobs[job_id] = FakeJob(facts, parameters, folder, entry_point=entry_point)
            self._move(job, "PENDING")
        return job

    def cancel(self, job: FakeJob) -> None:
        """Have a job ended."""
        job.is_cancelled = True

    def end(self, job_id: str, condition: str, message: str = "") -> None:
        """End a job as the scheduler of a system does, with this condition."""
        with self.lock:
            self._end_remotely(self.jobs[job_id], ("FAILED", condition, message), 1)

    def tell(self, job: FakeJob, event: str, detail: str, text: str) -> None:
        """Write something into the history of a job."""
        entry = {"event": event, "created": self.now(), "eventDetail": detail, "description": text}
        job.history.append({**entry, "transferTaskUuid": None})

    def stop(self) -> None:
        """End everything that runs."""
        self._stopped.set()
        self._thread.join()
        for job in self.jobs.values():
            self._kill(job)

    def _live(self) -> None:
        while not self._stopped.wait(_TICK_S):
            with self.lock:
                for job in self.jobs.values():
                    self._advance(job)
                self._start_what_fits()

    def _advance(self, job: FakeJob) -> None:
        if job.status in FINAL:
            return
        if job.is_cancelled:
            self._kill(job)
            self._finish(job, "CANCELLED", "CANCELLED_BY_USER", "")
        elif job.status in ON_THE_WAY[:-1]:
            self._move(job, ON_THE_WAY[ON_THE_WAY.index(job.status) + 1])
            if job.status == "QUEUED":
                job.facts |= {"remoteJobId": str(1000 + job.facts["id"]), "remoteSubmitted": self.now()}
        elif job.status == "RUNNING":
            self._watch(job)
        elif job.status == "ARCHIVING" and job.outcome is not None:
            self._finish(job, *job.outcome)

    def _watch(self, job: FakeJob) -> None:
        code = job.process.poll() if job.process is not None else 127
        if code == 0:
            self._end_remotely(job, ("FINISHED", "NORMAL_COMPLETION", ""), 0)
        elif code is not None:
            words = f"the scheduler says FAILED of the job {job.facts['remoteJobId']}"
            self._end_remotely(job, ("FAILED", "SCHEDULER_TERMINATED", words), code if code > 0 else 128 - code)
        elif self._now_s() - (job.start_s or 0.0) >= job.facts["maxMinutes"] * _MINUTE_S:
            self._end_remotely(job, ("FAILED", "SCHEDULER_TIMEOUT", ""), 0)

    def _end_remotely(self, job: FakeJob, outcome: tuple[str, str, str], code: int) -> None:
        self._kill(job)
        result = "0" if code == 0 else f"{code}:0"
        job.facts |= {"remoteEnded": self.now(), "remoteResultInfo": result}
        job.facts["remoteOutcome"] = "FINISHED" if outcome[0] == "FINISHED" else "FAILED"
        job.outcome = outcome
        self._move(job, "ARCHIVING")

    def _start_what_fits(self) -> None:
        free = self._nodes - sum(job.facts["nodeCount"] for job in self.jobs.values() if job.status == "RUNNING")
        for job in [job for job in self.jobs.values() if job.status == "QUEUED"]:
            verdict = self._dependency(job)
            if verdict == "never":
                self._finish(
                    job, "FAILED", "SCHEDULER_CANCELLED", "the job was CANCELLED: dependency never satisfied"
                )
            elif verdict == "now":
                free -= job.facts["nodeCount"]
                if free < 0:
                    return
                self._start(job)

    def _dependency(self, job: FakeJob) -> str:
        """Return whether a job may start now, later or never, for what it waits for."""
        condition, *ids = job.options().get("--dependency", "").split(":")
        for other in self.jobs.values():
            if other.facts["remoteJobId"] in ids:
                if other.facts["remoteEnded"] is None and other.status not in FINAL:
                    return "later"
                if condition == "afterok" and other.facts["remoteOutcome"] != "FINISHED":
                    return "never"
        return "now"

    def _start(self, job: FakeJob) -> None:
        script = job.folder / "tapisjob.sh"
        script.write_text(job.script(self._rate), errors="surrogateescape")
        path = f"{Path(sys.executable).parent}:{os.environ.get('PATH', os.defpath)}"
        with (job.folder / "tapisjob.out").open("wb") as output:
            job.process = subprocess.Popen(  # noqa: S603  (what a test has written)
                ["/bin/sh", str(script)],
                cwd=job.folder,
                env={"PATH": path, "HOME": str(job.folder), "LANG": "C.UTF-8"},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        job.start_s = self._now_s()
        job.facts["remoteStarted"] = self.now()
        self._move(job, "RUNNING")

    def _kill(self, job: FakeJob) -> None:
        if job.process is not None:
            # The whole session: what a job leaves behind is killed with it, as a scheduler does.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(job.process.pid, signal.SIGKILL)
            job.process.wait()

    def _finish(self, job: FakeJob, status: str, condition: str, message: str) -> None:
        job.facts |= {"condition": condition, "ended": self.now(), "lastMessage": message or f"It is {status}."}
        self._move(job, status)

    def _move(self, job: FakeJob, status: str) -> None:
        job.facts |= {"status": status, "lastUpdated": self.now()}
        self.tell(job, "JOB_NEW_STATUS", status, f"The job is {status} now.")

    def _now_s(self) -> float:
        return self._began_s + self._rate * (time.time() - self._began_s)
