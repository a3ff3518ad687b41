"""Hiding who ran what where, for traces that leave the house.

Numbered in order of appearance, the same name always by the same number: jobs and arrays (1, 2, …), users (u1),
groups (g1), accounts (a1), job names (n1), executables (e1), nodes (n1) and racks (r1), in all tables. Taken away:
the user in the log's own status word (`CANCELLED by 1001`), features that only one node has, the text of rejected
rows and what their reasons quote, and every column behind the prefix `x_`, because nobody knows what those hold.

Kept as they are: times, sizes and outcomes, by which somebody with the original log can tell the jobs again;
names of clusters, queues, partitions, QOS, constraints and types of nodes and GPUs, which may be called after
people; the names of the files, the notes, and the original file's comments and acknowledgement, because they name
the owners of the data and licences ask for them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from presage.traces.schema import EXTRA_PREFIX, STRINGS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from presage.traces.trace import Trace

_PREFIXES = {"user": "u", "group": "g", "account": "a", "name": "n", "executable": "e"}
_JOB_IDS = (
    ("jobs", "job_id"), ("jobs", "array_id"), ("jobs", "het_id"), ("attempts", "job_id"), ("edges", "job_id"),
    ("edges", "depends_on"),
)  # fmt: skip
_NODE_IDS = (("nodes", "node_id"), ("jobs", "node_list"), ("attempts", "node_list"), ("snapshots", "node_id"))
_TABLES = ("jobs", "attempts", "edges", "nodes", "snapshots")
_BY_WHOM = r"(?i)\s+by\s.*$"
_QUOTED = r"""(?s)['"].*['"]"""


def anonymised(trace: Trace) -> Trace:
    """Return the trace without names; the module's docstring says what is hidden and what is not."""
    tables = {name: _without_extras(trace.table(name)) for name in _TABLES}
    tables["nodes"] = tables["nodes"].with_columns(features=_shared_features(tables["nodes"]))
    for name in ("jobs", "attempts"):
        tables[name] = tables[name].with_columns(pl.col("status").str.replace(_BY_WHOM, ""))
    _number(tables, _JOB_IDS, "")
    _number(tables, _NODE_IDS, "n")
    _number(tables, [("nodes", "rack")], "r")
    for column, prefix in _PREFIXES.items():
        _number(tables, [("jobs", column)], prefix)
    hidden = {"reason": pl.col("reason").str.replace(_QUOTED, "'…'"), "text": pl.lit("", pl.String)}
    tables["rejects"] = trace.rejects.with_columns(**hidden)
    return type(trace)(manifest=trace.manifest, **tables).described()


def _without_extras(table: pl.DataFrame) -> pl.DataFrame:
    return table.select(name for name in table.columns if not name.startswith(EXTRA_PREFIX))


def _shared_features(nodes: pl.DataFrame) -> pl.Series:
    # One that a single node has, such as hostname=…, would tell the node again.
    each = nodes["features"].list.unique().explode().drop_nulls()
    shared = each.filter(each.is_duplicated()).unique()
    return nodes["features"].list.eval(pl.element().filter(pl.element().is_in(shared.implode())))


def _number(tables: dict[str, pl.DataFrame], places: Sequence[tuple[str, str]], prefix: str) -> None:
    """Replace the names in these columns by numbers, in order of appearance over all of them."""
    seen = pl.concat([tables[table][column].explode().drop_nulls() for table, column in places])
    known = seen.unique(maintain_order=True)
    numbers = pl.Series([f"{prefix}{number}" for number in range(1, len(known) + 1)], dtype=pl.String)
    for table, column in places:
        is_list = tables[table].schema[column] == STRINGS
        names = pl.element() if is_list else pl.col(column)
        numbered = names.replace_strict(known, numbers, default=None, return_dtype=pl.String)
        value = pl.col(column).list.eval(numbered) if is_list else numbered
        tables[table] = tables[table].with_columns(value.alias(column))
