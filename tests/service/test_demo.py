"""The first command that a newcomer types, on a service of its own; and what it says of the past."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from presage.cli import demo as demo_module
from presage.cli._demo_chain import losses, read_chain
from presage.cli._demo_telling import sentence
from presage.cli.demo import Demo
from presage.client.events import EVENTS_FILE, Event, EventFile
from presage.helper.places import running_service
from tests.service.test_up import start

BEGAN = datetime(2026, 3, 1, tzinfo=UTC)


def told(*happened: tuple[str, float]) -> list[Event]:
    return [
        Event(BEGAN + timedelta(seconds=index), kind, {"done": done})
        for index, (kind, done) in enumerate(happened)
    ]


@pytest.mark.slow
def test_the_demo_trains_past_a_limit_and_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo_module, "TRIAL_S", 1)
    monkeypatch.setattr(demo_module, "WANTED_S", (6.0, 8.0, 16.0))
    monkeypatch.setattr(demo_module, "LEAST_LIMIT_S", 5)
    running = start(tmp_path / "home")
    try:
        monkeypatch.setenv("PRESAGE_HOME", str(tmp_path / "home"))
        monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
        service = running_service()  # which nobody configured
        assert service is not None
        demo = Demo(tmp_path / "demo", service, shows=False)
        document = json.loads(json.dumps(demo.run()))
        demo.check()
        service.close()
        assert running.stop() == 0
        assert not list((tmp_path / "home").glob("service-*"))
    finally:
        running.close()
    assert document["job"]["phase"] == "completed"
    assert document["lost_epochs"] == 0
    chain = document["chain"]
    assert len(chain) >= 2
    assert chain[-1]["done_after"] == document["epochs"]
    assert document["plan"]["jobs"] >= 2
    assert json.loads((tmp_path / "demo" / "digits-1.json").read_text())["warning_s"] == demo_module.WARNING_S
    assert document["decisions"][0]["rule"] == "first"
    words = [command.split(" ", 2)[-1] for command in document["commands"]]
    assert sum("digits-1.json" in each for each in words) == 2  # written by the plan, then handed over


@pytest.mark.parametrize(
    ("happened", "expected"),
    [
        ([("started", 0), ("progress", 3), ("checkpoint", 3.5), ("started", 3.5), ("progress", 8)], (0.0, 0.0)),
        # Cut off after its checkpoint: what came later is done twice, what was saved is there.
        ([("started", 0), ("checkpoint", 2), ("progress", 5), ("started", 2), ("progress", 8)], (0.0, 3.0)),
        # It began anew although 2 epochs had been saved.
        ([("started", 0), ("checkpoint", 2), ("progress", 3), ("started", 0), ("progress", 8)], (2.0, 3.0)),
    ],
)
def test_what_is_lost_is_told_from_what_is_done_twice(
    happened: list[tuple[str, float]], expected: tuple[float, float]
) -> None:
    assert losses(told(*happened)) == expected


def test_a_job_that_said_nothing_leaves_all_as_it_found_it(tmp_path: Path) -> None:
    file = EventFile(tmp_path / EVENTS_FILE)
    for done in (0.0, 9.0):
        file.tell("progress", done=done, total=9)
    begins = [datetime.now(UTC) + timedelta(seconds=shift) for shift in (-60, 60)]
    sub_jobs = [
        {
            "number": number, "ending": "completed", "reason": "", "walltime_s": 5.0,
            "start_time": begin.isoformat(), "end_time": (begin + timedelta(seconds=90)).isoformat(),
        }
        for number, begin in enumerate(begins, start=1)
    ]  # fmt: skip
    job = {"sub_jobs": sub_jobs, "created_at": begins[0].isoformat(), "phase": "completed", "reason": ""}
    assert [(link.done_before, link.done_after) for link in read_chain(job, tmp_path).links] == [(0, 9), (9, 9)]


@pytest.mark.parametrize(
    ("kind", "values", "words"),
    [
        ("progress", {"done": 7.0, "total": 60.0, "left_s": 12.0}, "7.0 of 60 epochs, about 12 s left, loss 0.4"),
        (
            "started",
            {"done": 8.2, "resumed_from": "/run/checkpoint-000002.safetensors"},
            "goes on from checkpoint-",
        ),
        ("ended", {"sub_job": 2, "ending": "timeout", "words": "over its limit"}, "job 2 ended (timeout)"),
        ("finished", {"done": 60.0, "total": 60}, ""),
        ("something-new", {}, ""),
    ],
)
def test_events_are_told_in_sentences(kind: str, values: dict[str, Any], words: str) -> None:
    line = sentence({"kind": kind, "values": values}, metrics=", loss 0.4")
    assert line.startswith(words)
    assert bool(line) == bool(words)
