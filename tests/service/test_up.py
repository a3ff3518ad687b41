"""The whole of it on this machine: `presage up` in a process of its own, a job that is longer than its limit."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from presage.client.rest import ServiceClient, ServiceError

pytest.importorskip("fastapi")

TRAINING = """\
import time
import numpy as np
from presage.client import track

class Line:
    slope = 0.0
    def state_dict(self): return {"slope": self.slope}
    def load_state_dict(self, state): self.slope = state["slope"]

model = Line()
x = np.linspace(0, 1, 50)
for epoch in (run := track(10, every_s=0, model=model)):
    time.sleep(0.7)
    model.slope -= 0.5 * float(np.mean((model.slope * x - 2 * x) * x))
    run.report(loss=float(np.mean((model.slope * x - 2 * x) ** 2)))
"""


@dataclass
class Running:
    """A service that was started, and its client."""

    process: subprocess.Popen[str]
    client: ServiceClient
    environment: dict[str, str]

    def stop(self) -> int:
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(60)

    def close(self) -> None:
        self.client.close()
        self.process.kill()
        self.process.communicate()


def start(home: Path) -> Running:
    environment = {**os.environ, "PRESAGE_HOME": str(home), "XDG_CONFIG_HOME": str(home)}
    command = [sys.executable, "-m", "presage", "up", "--port", "0", "--json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    assert process.stdout is not None
    text = ""
    while "}" not in text:
        line = process.stdout.readline()
        assert line, "the service ended before it said where it is"
        text += line
    told = json.loads(text)
    return Running(process, ServiceClient(told["address"], told["token"]), environment)


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    service = start(tmp_path / "home")
    yield service
    service.close()


def wait_for_end(client: ServiceClient, job_id: str, most_s: float = 120) -> dict[str, Any]:
    deadline = time.monotonic() + most_s
    while (job := client.job(job_id))["phase"] in ("active", "stopping") and time.monotonic() < deadline:
        time.sleep(0.5)
    return job


def training_order(tmp_path: Path) -> dict[str, Any]:
    (tmp_path / "train.py").write_text(TRAINING)
    return {
        "name": "line",
        "script": f"#!/bin/sh\nexec {sys.executable} {tmp_path / 'train.py'}\n",
        "places": [{"cluster": "local", "walltime_s": 8, "limit_s": 8, "cores": 1}],
        "run_folder": str(tmp_path / "run"),
        "working_directory": str(tmp_path),
        "signal_before_s": 2,
    }


@pytest.mark.slow
def test_a_training_longer_than_its_limit_comes_to_its_end(running: Running, tmp_path: Path) -> None:
    job = running.client.hand_over(training_order(tmp_path))
    done = wait_for_end(running.client, job["job_id"])
    assert done["phase"] == "completed", done["reason"]
    endings = [each["ending"] for each in done["sub_jobs"]]
    assert endings[-1] == "completed"
    assert set(endings[:-1]) == {"to-be-continued"}
    assert len(endings) >= 2
    events = running.client.events(job["job_id"])
    losses = [event["values"]["metrics"]["loss"] for event in events if event["kind"] == "performance"]
    assert len(losses) == 10  # every epoch was learned once
    assert losses == sorted(losses, reverse=True)
    rules = [each["rule"] for each in running.client.decisions(job["job_id"])]
    assert rules[0] == "first"
    assert rules[-1] == "finish"


@pytest.mark.slow
def test_jobs_go_on_after_the_service_was_stopped_and_tokens_end_with_it(running: Running, tmp_path: Path) -> None:
    job = running.client.hand_over(training_order(tmp_path))
    time.sleep(3)
    assert running.stop() == 0
    again = start(tmp_path / "home")
    try:
        assert wait_for_end(again.client, job["job_id"])["phase"] == "completed"
        old = ServiceClient(str(again.client._http.base_url), running.client._http.headers["authorization"][7:])
        with pytest.raises(ServiceError, match="no valid token"):
            old.jobs()
        listed = subprocess.run(
            [sys.executable, "-m", "presage", "jobs", "--json"],
            check=True, capture_output=True, text=True, env=again.environment,
        )  # fmt: skip
        assert [each["job_id"] for each in json.loads(listed.stdout)["jobs"]] == [job["job_id"]]
        old.close()
    finally:
        again.close()
