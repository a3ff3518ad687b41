from __future__ import annotations

import contextlib
import io
import random
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import polars as pl
import pytest

from presage.errors import InputError, MalformedTraceError, RejectedRowsError, UnreadableSourceError
from presage.testing import make_job, make_trace
from presage.traces import (
    SCHEMA_VERSION,
    Machine,
    Manifest,
    ReadOptions,
    Trace,
    TraceBuilder,
    read_trace,
    schema,
)


def test_jobs_are_ordered_by_submit_with_ties_as_they_stand() -> None:
    jobs = pl.DataFrame({"job_id": ["d", "c", "b", "a"], "submit_ms": [5, None, 3, 5]})
    assert Trace.create(jobs, Manifest()).jobs["job_id"].to_list() == ["b", "d", "a", "c"]


@pytest.mark.parametrize("ids", [["a", "a"], ["a", None]])
def test_ids_are_unique_and_known(ids: list[str]) -> None:
    with pytest.raises(MalformedTraceError, match="missing or repeated job ids"):
        Trace.create(pl.DataFrame({"job_id": ids}), Manifest())


def test_absent_columns_are_null_and_stray_ones_refused() -> None:
    frame = schema.conform(pl.DataFrame({"job_id": ["1"], "x_mine": [3]}), "jobs")
    assert frame["run_s"].to_list() == [None]
    assert frame.columns[-1] == "x_mine"
    with pytest.raises(MalformedTraceError, match="Rename it to 'x_mine'"):
        schema.conform(pl.DataFrame({"mine": [3]}), "jobs")
    with pytest.raises(MalformedTraceError, match="wrong type"):
        schema.conform(pl.DataFrame({"run_s": ["soon"]}), "jobs")


@pytest.mark.parametrize("table", schema.TABLES)
def test_empty_tables_stay_empty(table: str) -> None:
    assert len(schema.conform(pl.DataFrame(), table)) == 0
    assert schema.empty(table).schema == schema.TABLES[table]


def test_the_manifest_says_what_is_there() -> None:
    manifest = make_trace(make_job(0, 1, 2, user="a"), {"submit_ms": 5}).manifest
    known = {name for name, present in manifest.has.items() if present}
    assert known == {"submits", "waits", "runs", "allocated_cpus", "users"}
    assert manifest.counts == {"jobs": 2, "rejected": 0}


def test_manifests_survive_json() -> None:
    manifest = Manifest(name="x", machine=Machine(cpus=1.5), generator={"seed": 1}, notes=("a",), header=("; b",))
    assert Manifest.from_json(manifest.to_json()) == manifest


@pytest.mark.parametrize("text", ["", "[]", '{"machine": 3}', '{"schema_version": "x"}'])
def test_damaged_manifests_are_refused(text: str) -> None:
    with pytest.raises(MalformedTraceError, match="manifest is damaged"):
        Manifest.from_json(text)


def test_traces_of_a_later_version_are_refused() -> None:
    newer = replace(Manifest(), schema_version=SCHEMA_VERSION + 1)
    with pytest.raises(MalformedTraceError, match="Upgrade Presage"):
        Manifest.from_json(newer.to_json())


def test_files_that_are_no_traces_are_refused(tmp_path: Path) -> None:
    foreign = tmp_path / "foreign.parquet"
    pl.DataFrame({"a": [1]}).write_parquet(foreign)
    with pytest.raises(MalformedTraceError, match="without a Presage manifest"):
        Trace.load(foreign)
    foreign.write_bytes(b"PAR1 and then nothing")
    with pytest.raises(UnreadableSourceError, match="not a Parquet file"):
        Trace.load(foreign)
    with pytest.raises(UnreadableSourceError, match="There is no file"):
        Trace.load(tmp_path / "nothing.parquet")


def test_a_damaged_file_is_a_clear_error_even_where_polars_panics(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t.parquet"
    make_trace(make_job(0, 1, 2, user="a")).save(path)

    def panic(*args: object, **kwargs: object) -> None:
        raise pl.exceptions.PanicException("index out of bounds")

    monkeypatch.setattr(pl, "read_parquet", panic)
    with pytest.raises(UnreadableSourceError, match="index out of bounds"):
        Trace.load(path)
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(path.read_bytes())))
    with pytest.raises(UnreadableSourceError, match="<stdin> is not a Parquet file that can be read"):
        read_trace("-")


def test_damage_anywhere_in_a_parquet_file_is_a_clear_error(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    make_trace(*(make_job(number, 1, 2, user="a") for number in range(50))).save(path)
    whole = path.read_bytes()
    generator = random.Random(1)
    for _ in range(60):
        damaged = bytearray(whole)
        for _ in range(3):
            damaged[generator.randrange(4, len(whole))] = generator.randrange(256)
        path.write_bytes(damaged)
        with contextlib.suppress(InputError):
            read_trace(path, format="parquet")


def test_what_several_files_tell_of_the_machine_is_put_together() -> None:
    builder = TraceBuilder()
    builder.add_jobs(pl.DataFrame({"job_id": ["1"]}))
    builder.add_nodes(pl.DataFrame({"node_id": ["a", "b"], "cpus": [8.0, 8.0], "gpus": [1.0, None]}))
    builder.describe(machine=Machine(mem_bytes=5))
    builder.describe(machine=Machine(cpus=20))
    assert builder.build().manifest.machine == Machine(nodes=2, cpus=20, gpus=1, mem_bytes=5)


def test_what_is_true_of_one_file_only_is_not_told_of_several() -> None:
    builder = TraceBuilder()
    builder.add_jobs(pl.DataFrame({"job_id": ["1"]}))
    for cpus, origin_ms, header, owner in (
        (64, 5000, "; a", "Ann"),
        (16, 3000, "; b", "Bob"),
        (32, 9000, "; a", "Ann"),
    ):
        builder.describe(machine=Machine(cpus=cpus), origin_ms=origin_ms, header=(header,), acknowledgement=owner)
    builder.describe(absolute_time=False)
    builder.describe(absolute_time=True)
    manifest = builder.build().manifest
    assert (manifest.machine.cpus, manifest.origin_ms, manifest.header) == (64, 3000, ())
    assert manifest.acknowledgement == "Ann; Bob"
    assert not manifest.absolute_time


def test_a_reject_without_a_line_is_told_by_its_file() -> None:
    builder = TraceBuilder(ReadOptions(strict=True))
    builder.add_jobs(pl.DataFrame({"job_id": ["1"]}))
    builder.reject("log.json", None, "it is no job")
    with pytest.raises(RejectedRowsError, match=r"1 row cannot be read; the first is log\.json: it is no job"):
        builder.build()
