from __future__ import annotations

import contextlib
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from presage.client.events import EVENTS_FILE
from presage.errors import InputError
from presage.orchestrator.jobs import ManagedJob, Order, Phase, Place, Progress, parse_order
from presage.orchestrator.monitoring import read_progress

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
GOOD = {"name": "train", "script": "#!/bin/sh\n", "places": [{"cluster": "sim"}], "run_folder": "/run/here"}


def line(kind: str, minutes: float = 0.0, **values: Any) -> bytes:
    return (
        json.dumps({"time": (NOW + timedelta(minutes=minutes)).isoformat(), "kind": kind, **values}).encode()
        + b"\n"
    )


def read(
    folder: Path, progress: Progress | None = None
) -> tuple[Progress | None, list[tuple[str, dict[str, Any]]]]:
    order = Order("train", "#!/bin/sh\n", (Place("sim"),), run_folder=str(folder))
    return read_progress(ManagedJob("j", "ann", order, Phase.ACTIVE, NOW, progress=progress))


def test_the_rate_is_that_since_it_was_heard_of_last(tmp_path: Path) -> None:
    events = tmp_path / EVENTS_FILE
    events.write_bytes(line("started", done=0, total=10) + line("progress", 10, done=2, total=10))
    progress, told = read(tmp_path)
    assert progress is not None
    assert progress.per_s == pytest.approx(2 / 600)
    assert progress.left_s == pytest.approx(2400)
    assert [kind for kind, _ in told] == ["started", "progress"]
    with events.open("ab") as file:
        file.write(line("progress", 11, done=4, total=10))
    progress, _ = read(tmp_path, progress)
    assert progress is not None
    assert progress.per_s == pytest.approx(2 / 60)


def test_what_was_read_is_not_told_again(tmp_path: Path) -> None:
    (tmp_path / EVENTS_FILE).write_bytes(b"no event\n" + line("performance", metrics={"loss": 1.0}))
    progress, told = read(tmp_path)
    assert told == [("performance", {"metrics": {"loss": 1.0}})]
    assert progress is not None
    assert not progress.is_known
    assert read(tmp_path, progress) == (progress, [])


def test_progress_is_an_event_each_hundredth_of_the_work_and_not_at_each_look(tmp_path: Path) -> None:
    progress, count = None, 0
    for step in range(1, 1001):
        with (tmp_path / EVENTS_FILE).open("ab") as file:
            file.write(line("progress", step, done=step, total=1000))
        progress, told = read(tmp_path, progress)
        count += len(told)
    assert 90 <= count <= 101
    assert progress is not None
    assert progress.done == 1000


def test_a_job_that_tells_too_much_fills_no_database(tmp_path: Path) -> None:
    lines = [line("performance", metrics={"loss": number}) for number in range(30_000)]
    (tmp_path / EVENTS_FILE).write_bytes(b"".join([*lines, line("performance", words="x" * 50_000)]))
    progress, told = None, []
    for _ in range(4):
        progress, new = read(tmp_path, progress)
        assert len(new) <= 22
        told += new
    assert ("not-shown", {"events": 9980, "file": str(tmp_path / EVENTS_FILE)}) in told
    assert told[-1][1]["too_long_bytes"] > 50_000


def test_a_line_without_end_and_a_file_that_was_begun_anew_are_got_over(tmp_path: Path) -> None:
    events = tmp_path / EVENTS_FILE
    events.write_bytes(b"x" * 200_000 + b"\n" + line("progress", done=1, total=2))
    progress, _ = read(tmp_path)
    assert progress is not None
    assert progress.done == 1
    events.write_bytes(line("progress", 1, done=2, total=2))
    progress, _ = read(tmp_path, progress)
    assert progress is not None
    assert progress.done == 2


@pytest.mark.parametrize(
    "total", ["0", "NaN", "Infinity", "1e400", "-1", "null", '"ten"', "true", "1" + "0" * 400]
)
@pytest.mark.parametrize("time", ["2026-03-01T12:00:00", "0001-01-01T00:00:00+23:59"])
def test_numbers_and_times_that_are_none_are_passed_over(tmp_path: Path, total: str, time: str) -> None:
    text = f'{{"time": "{time}", "kind": "progress", "done": 1, "total": {total}, "elapsed_s": {total}}}\n'
    good = '{"time": "2026-03-01T12:00:00", "kind": "progress", "done": 1, "total": 2}\n'
    (tmp_path / EVENTS_FILE).write_text(text + good + text.replace('"done": 1', f'"done": {total}'))
    progress, _ = read(tmp_path)
    assert progress is not None
    assert (progress.done, progress.total) == (1, 2)


@given(content=st.binary(max_size=2000))
def test_no_file_stops_the_plane(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    folder = tmp_path_factory.mktemp("run")
    (folder / EVENTS_FILE).write_bytes(content + b"\n" + line("progress", done=1, total=2))
    progress, _ = read(folder)
    assert progress is not None
    assert progress.done == 1


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"name": "a\0b"}, "NUL"),
        ({"name": "x" * 300}, "too long"),
        ({"name": "\udc80"}, "half a character"),
        ({"script": "echo"}, "interpreter"),
        ({"script": "#!/bin/sh\n" + "x" * 5_000_000}, "bytes long"),
        ({"environment": {"A": "a\0b"}}, "NUL"),
        ({"environment": {"A B": "a"}}, "variable"),
        ({"environment": {f"A{number}": "" for number in range(6000)}}, "more than 5000"),
        ({"arguments": ["x" * 200_000]}, "bytes long"),
        ({"run_folder": "/a\0b"}, "NUL"),
        ({"run_folder": "here"}, "not absolute"),
        ({"places": []}, "0 places"),
        ({"places": [{"cluster": "sim", "nodes": 0}]}, "at least 1"),
        ({"places": [{"cluster": "sim", "walltime_s": float("nan")}]}, "at least 1"),
        ({"places": [{"cluster": "sim", "memory_bytes": -1}]}, "at least 1"),
        ({"places": [{"cluster": "sim", "limit_s": float("inf")}]}, "places.0.limit_s"),
        ({"places": [{"cluster": "sim", "walltime": 3}]}, "did you mean 'walltime_s'"),
        ({"work_s": float("nan")}, "work_s"),
        ({"most_sub_jobs": 0}, "most_sub_jobs"),
        ({"works": 3}, "no field 'works'"),
    ],
)
def test_what_no_cluster_can_take_is_refused_when_it_is_handed_over(change: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        parse_order({**GOOD, **change})


LEAVES = st.none() | st.booleans() | st.floats() | st.text(max_size=20)
FIELDS = st.sampled_from([*GOOD, "work_s", "cluster", "environment"])
DOCUMENTS = st.recursive(LEAVES, lambda each: st.lists(each) | st.dictionaries(FIELDS, each), max_leaves=8)


@given(DOCUMENTS, st.dictionaries(FIELDS, DOCUMENTS, max_size=3))
def test_no_document_is_a_traceback(document: Any, changes: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="cannot be taken"):
        parse_order(document)
    with contextlib.suppress(InputError):
        parse_order({**GOOD, **changes})


def test_the_one_that_was_submitted_first_is_heard_when_it_works_last(tmp_path: Path) -> None:
    lines = [
        line("progress", 10, done=2, total=10, sub_job=2, sequence=50),
        line("progress", 20, done=6, total=10, sub_job=1, sequence=70),  # it took over
        line("progress", 15, done=4, total=10, sub_job=2, sequence=51),  # and this comes late
    ]
    (tmp_path / EVENTS_FILE).write_bytes(b"".join(lines))
    progress, _ = read(tmp_path)
    assert progress is not None
    assert progress.done == 6
