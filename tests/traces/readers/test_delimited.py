from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from presage.traces import Source, TraceBuilder
from presage.traces.readers import _cells
from presage.traces.readers._cells import LINE, delimited

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    import pytest

rows_of_cells = st.lists(st.lists(st.text("ab,|\r é", max_size=3), min_size=1, max_size=4), max_size=12)


class Rejects(TraceBuilder):
    def __init__(self) -> None:
        super().__init__()
        self.rows: list[tuple[int | None, str, str]] = []

    def reject(self, file: str, line: int | None, reason: str, text: str = "") -> None:
        self.rows.append((line, reason, text))


def read(
    path: Path,
    columns: Sequence[str] | None = None,
    mend: Callable[[list[str]], list[str] | None] | None = None,
) -> tuple[pl.DataFrame, list[tuple[int | None, str, str]]]:
    into = Rejects()
    batches = delimited(Source(path), into, delimiter="|", quoted=False, columns=columns, mend=mend)
    tables = [cells.table for cells in batches]
    return pl.concat(tables) if tables else pl.DataFrame(), into.rows


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=rows_of_cells)
def test_whole_blocks_and_single_lines_read_the_same(
    rows: list[list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "table.txt"
    path.write_bytes("\n".join("|".join(row) for row in [["1", "2", "3"], *rows]).encode())
    fast = read(path, ["a", "b", "c"])
    with monkeypatch.context() as patch:
        patch.setattr(_cells, "_whole_table", lambda *_: None)
        slow = read(path, ["a", "b", "c"])
    assert fast[0].equals(slow[0])
    assert fast[1] == slow[1]


def test_a_long_line_that_makes_up_for_a_short_one_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "table.txt"
    path.write_text("a|b|c\n1|2\n3|4|5|6\n7|8|9\n")
    table, rejects = read(path)
    assert table["a"].to_list() == ["7"]
    assert [line for line, _, _ in rejects] == [2, 3]


def test_a_row_with_too_many_fields_can_be_mended(tmp_path: Path) -> None:
    path = tmp_path / "table.txt"
    path.write_text("a|b|c\n1|x|y|2\n3|4|5\n6|7|8|9|10\n")
    table, rejects = read(path, mend=lambda row: [row[0], "|".join(row[1:-1]), row[-1]] if len(row) == 4 else None)
    assert table.rows() == [(2, "1", "x|y", "2"), (3, "3", "4", "5")]
    assert table.columns[0] == LINE
    assert [line for line, _, _ in rejects] == [4]
