"""A trace in memory: the job table, the tables beside it, and the manifest."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from presage.errors import MalformedTraceError
from presage.traces import schema
from presage.traces.files import reading_parquet, replacing, writing
from presage.traces.manifest import HAS, Manifest
from presage.wording import counted

if TYPE_CHECKING:
    from collections.abc import Mapping

METADATA_KEY = "presage"
SIDE_TABLES = ("attempts", "edges", "nodes", "snapshots", "rejects")


@dataclass(frozen=True)
class Trace:
    """What happened on a cluster.

    Invariants, kept by `Trace.create`: every table has all columns of `presage.traces.schema`; jobs are ordered
    by `submit_ms` with ties in the log's own order and unknown times last; `job_id` is unique; the manifest's
    `has` and `counts` tell the truth about the tables.
    """

    jobs: pl.DataFrame
    manifest: Manifest
    attempts: pl.DataFrame = field(default_factory=partial(schema.empty, "attempts"))
    edges: pl.DataFrame = field(default_factory=partial(schema.empty, "edges"))
    nodes: pl.DataFrame = field(default_factory=partial(schema.empty, "nodes"))
    snapshots: pl.DataFrame = field(default_factory=partial(schema.empty, "snapshots"))
    rejects: pl.DataFrame = field(default_factory=partial(schema.empty, "rejects"))

    @classmethod
    def create(cls, jobs: pl.DataFrame, manifest: Manifest, **tables: pl.DataFrame) -> Trace:
        """Return a trace whose invariants hold. Raises MalformedTraceError for duplicated ids or wrong columns."""
        jobs = sort_by_submit(schema.conform(jobs, "jobs"))
        if jobs["job_id"].null_count() or jobs["job_id"].n_unique() != len(jobs):
            raise MalformedTraceError(
                "The jobs table has missing or repeated job ids",
                expected="one row per job, each with its own id",
            )
        conformed = {name: schema.conform(frame, name) for name, frame in tables.items()}
        return cls(jobs=jobs, manifest=manifest, **conformed).described()

    def __len__(self) -> int:
        return len(self.jobs)

    def table(self, name: str) -> pl.DataFrame:
        """Return the table called `name`: jobs, attempts, edges, nodes, snapshots or rejects."""
        frame: pl.DataFrame = getattr(self, name)
        return frame

    def with_jobs(self, jobs: pl.DataFrame) -> Trace:
        """Return the trace with other jobs; rows of the other tables that belong to dropped jobs go with them."""
        kept = jobs.select("job_id")
        return replace(
            self,
            jobs=jobs,
            attempts=self.attempts.join(kept, on="job_id", how="semi", maintain_order="left"),
            edges=self.edges.join(kept, on="job_id", how="semi", maintain_order="left"),
        ).described()

    def with_processors(self, cpus: float) -> Trace:
        """Return the trace on a machine of another size."""
        machine = replace(self.manifest.machine, cpus=cpus)
        return replace(self, manifest=replace(self.manifest, machine=machine))

    def described(self) -> Trace:
        """Return the trace with the manifest's `has` and `counts` computed anew."""
        has = {name: bool(self.jobs[column].null_count() < len(self.jobs)) for name, column in HAS.items()}
        return replace(self, manifest=describe(self.manifest, has, self._counts()))

    def events(self) -> pl.DataFrame:
        """Return the event stream: see `presage.traces.events`."""
        from presage.traces.events import event_stream

        return event_stream(self)

    def save(self, path: str | Path) -> None:
        """Write Parquet: the jobs and the manifest to `path`, other tables that have rows beside it.

        `trace.parquet` gets neighbours like `trace.attempts.parquet`; stale ones of an earlier save are removed.
        """
        path = Path(path)
        save_side_tables(path, {name: self.table(name) for name in SIDE_TABLES})
        with replacing(path) as partial:
            self.jobs.write_parquet(partial, metadata={METADATA_KEY: self.manifest.to_json()})

    @classmethod
    def load(cls, path: str | Path) -> Trace:
        """Read what `save` wrote. Raises UnreadableSourceError or MalformedTraceError."""
        path = Path(path)
        manifest = load_manifest(path)
        sides = {}
        for name in SIDE_TABLES:
            expected = manifest.counts.get("rejected" if name == "rejects" else name, 0)
            side = side_path(path, name)
            if side.is_file():
                sides[name] = schema.conform(_read_parquet(side), name)
            elif expected:
                rows = counted(expected, "row")
                raise MalformedTraceError(
                    f"{path.name} says that it has {rows} of {name}, and {side.name} is missing",
                    remedy=f"Put {side.name} back beside it, or convert the original log again",
                )
        jobs = schema.conform(_read_parquet(path), "jobs")
        return cls(jobs=jobs, manifest=manifest, **sides)

    def _counts(self) -> dict[str, int]:
        counts = {name: len(self.table(name)) for name in ("jobs", "attempts", "edges", "nodes", "snapshots")}
        return {**counts, "rejected": len(self.rejects)}


def describe(manifest: Manifest, has: Mapping[str, bool], counts: Mapping[str, int]) -> Manifest:
    """Return the manifest with `has` and `counts` filled in; counts of tables without rows are left out."""
    kept = {name: count for name, count in {**manifest.counts, **counts}.items() if count or name in _ALWAYS}
    return replace(manifest, has=dict(has), counts=kept)


_ALWAYS = {"jobs", "rejected"}


def sort_by_submit(jobs: pl.DataFrame) -> pl.DataFrame:
    """Return the jobs in submit order, ties as they stand, unknown times last."""
    submit = jobs["submit_ms"]
    if submit.null_count() == len(submit) or (not submit.null_count() and submit.is_sorted()):
        return jobs
    return jobs.sort("submit_ms", nulls_last=True, maintain_order=True)


def side_path(path: Path, table: str) -> Path:
    """Return where the side table `table` of the trace at `path` is kept."""
    return path.with_name(f"{path.stem}.{table}.parquet")


def save_side_tables(path: Path, tables: Mapping[str, pl.DataFrame]) -> None:
    """Write the side tables that have rows next to `path`, and remove those that have none."""
    for name, frame in tables.items():
        if len(frame):
            with replacing(side_path(path, name)) as partial:
                frame.write_parquet(partial)
        else:
            with writing(side_path(path, name)):
                side_path(path, name).unlink(missing_ok=True)


def load_manifest(path: Path) -> Manifest:
    """Return the manifest of the trace at `path` without reading its tables."""
    with reading_parquet(str(path)):
        metadata = pl.read_parquet_metadata(path)
    return manifest_in(metadata, path.name)


def manifest_in(metadata: Mapping[str, str], name: str) -> Manifest:
    """Return the manifest in the metadata of the Parquet file called `name`. Raises MalformedTraceError."""
    if METADATA_KEY not in metadata:
        raise MalformedTraceError(
            f"{name} is a Parquet file without a Presage manifest",
            expected="a trace written by `presage trace convert`",
            remedy="Convert the original log to it",
        )
    return Manifest.from_json(metadata[METADATA_KEY])


def place_of(reject: Mapping[str, Any]) -> str:
    """Return where a row of `rejects` stood, as `log.swf, line 3`; the line is left out where there is none."""
    return reject["file"] if reject["line"] is None else f"{reject['file']}, line {reject['line']}"


def _read_parquet(path: Path) -> pl.DataFrame:
    with reading_parquet(str(path)):
        return pl.read_parquet(path)
