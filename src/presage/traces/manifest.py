"""The manifest: what a trace is, what it has, and what was done to it. Stored as JSON inside the Parquet file."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import Any

from pydantic import TypeAdapter, ValidationError

from presage.errors import MalformedTraceError
from presage.traces.schema import SCHEMA_VERSION


@dataclass(frozen=True)
class Machine:
    """The size of the machine as far as its log or its owner tells; None is unknown."""

    nodes: int | None = None
    cpus: float | None = None
    gpus: float | None = None
    mem_bytes: int | None = None


@dataclass(frozen=True)
class SourceFile:
    """One file the trace was read from."""

    name: str
    format: str
    rows: int | None = None
    """Records read, rejected ones included."""


@dataclass(frozen=True)
class CleaningStep:
    """One cleaning rule that was applied, and what it did."""

    rule: str
    dropped: int
    changed: int


@dataclass(frozen=True)
class Manifest:
    """What a reader of the trace must know before using a column.

    `has` says which kinds of knowledge are present in at least one job (see `HAS`), so that losses can be
    masked and reports can say "not in this log" instead of zero.
    """

    name: str = ""
    scheduler: str | None = None
    machine: Machine = Machine()
    time_zone: str | None = None
    """Where the machine stands, for daily rhythms; the times in the tables are UTC all the same."""
    absolute_time: bool = True
    """False: the log does not say when its time zero was; times count from there."""
    origin_ms: int = 0
    """The log's own time zero on the tables' clock, so that writers can give relative times back."""
    has: dict[str, bool] = field(default_factory=dict)
    synthetic: bool = False
    synthetic_columns: tuple[str, ...] = ()
    """Columns that were invented although the jobs are real; empty when all is real or all is synthetic."""
    generator: dict[str, Any] = field(default_factory=dict)
    """For synthetic traces: the model's name, its parameters and its seed."""
    licence: str | None = None
    acknowledgement: str | None = None
    sources: tuple[SourceFile, ...] = ()
    counts: dict[str, int] = field(default_factory=dict)
    """Rows per table, `rejected`, and what readers count besides (`steps_folded`, `duplicate_ids`…)."""
    cleaning: tuple[CleaningStep, ...] = ()
    notes: tuple[str, ...] = ()
    header: tuple[str, ...] = ()
    """Comment lines of the original file, kept because licences ask for them."""
    schema_version: int = SCHEMA_VERSION

    def to_json(self) -> str:
        """Return the manifest as a JSON document."""
        return _ADAPTER.dump_json(self).decode()

    def to_dict(self) -> dict[str, Any]:
        """Return the manifest as plain dictionaries and lists."""
        return asdict(self)

    @classmethod
    def from_json(cls, text: str | bytes) -> Manifest:
        """Return the manifest written by `to_json`. Raises MalformedTraceError if it is not one."""
        try:
            manifest = _ADAPTER.validate_json(text)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(str(part) for part in first["loc"]) or "its beginning"
            raise MalformedTraceError(
                f"The trace's manifest is damaged at {where}: {first['msg']}",
                expected=f"a manifest of schema version {SCHEMA_VERSION}",
                remedy="Convert the original log again",
            ) from None
        if manifest.schema_version > SCHEMA_VERSION:
            raise MalformedTraceError(
                f"The trace has schema version {manifest.schema_version}",
                expected=f"at most {SCHEMA_VERSION}, which this version of Presage writes",
                remedy="Upgrade Presage, or convert the original log again",
            )
        return manifest

    def with_counts(self, **counts: int) -> Manifest:
        """Return the manifest with these counts set."""
        return replace(self, counts={**self.counts, **counts})


_ADAPTER = TypeAdapter(Manifest)

HAS = {
    "submits": "submit_ms",
    "waits": "wait_s",
    "runs": "run_s",
    "limits": "limit_s",
    "cpus": "cpus_req",
    "allocated_cpus": "cpus_alloc",
    "gpus": "gpus_req",
    "memory_requests": "mem_req_bytes",
    "memory_used": "mem_used_bytes",
    "cpu_used": "cpu_used_s",
    "users": "user",
    "groups": "group",
    "queues": "queue",
    "partitions": "partition",
    "names": "name",
    "outcomes": "outcome",
    "node_lists": "node_list",
    "priorities": "priority",
}
"""Name of a kind of knowledge → the job column that carries it."""
