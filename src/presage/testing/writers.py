"""The contract of a trace writer as tests."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from presage.errors import OutputError
from presage.testing.traces import make_job, make_trace
from presage.traces import Trace, read_trace
from presage.traces.writers import choose_writer, write_trace


class WriterContract:
    """What every writer must do: be chosen by its endings, keep its columns, never leave half a file."""

    format: ClassVar[str]
    """The registered name of the writer, and of the reader that reads its files."""
    suffix: ClassVar[str]
    keeps: ClassVar[tuple[str, ...]]
    """Job columns that writing and reading again must keep exactly."""
    compresses: ClassVar[bool] = True

    def trace(self) -> Trace:
        """Return the trace to write; override it for formats that cannot say all of this."""
        return make_trace(
            make_job(0, 5, 10.5, 4, user="7", queue="1", outcome="completed", limit_s=60.0, cpus_req=4.0),
            make_job(1, 0, 99, 1, user="8", queue="2", outcome="failed", mem_req_bytes=2**20),
            {"submit_ms": 2_000, "user": "7", "outcome": "cancelled", "cpus_req": 2.0},
            cpus=8,
        )

    def test_is_chosen_by_the_ending_of_the_file(self) -> None:
        assert choose_writer(f"a.b{self.suffix}").format == self.format

    def test_what_it_writes_is_read_back(self, tmp_path: Path) -> None:
        endings = ["", ".gz", ".zst"] if self.compresses else [""]
        trace = self.trace()
        for ending in endings:
            path = tmp_path / f"trace{self.suffix}{ending}"
            write_trace(trace, path)
            again = read_trace(path)
            assert_frame_equal(again.jobs.select(self.keeps), trace.jobs.select(self.keeps))

    def test_the_same_trace_gives_the_same_bytes(self, tmp_path: Path) -> None:
        first, second = tmp_path / f"1{self.suffix}", tmp_path / f"2{self.suffix}"
        write_trace(self.trace(), first)
        write_trace(self.trace(), second)
        assert first.read_bytes() == second.read_bytes()

    def test_a_failure_keeps_what_was_there(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        path = tmp_path / f"trace{self.suffix}"
        write_trace(self.trace(), path)
        before = path.read_bytes()

        def fail(*args: object, **kwargs: object) -> None:
            raise OSError("the disk is full")

        for method in ("write_parquet", "write_csv", "write_ndjson"):
            monkeypatch.setattr(pl.DataFrame, method, fail)
        with pytest.raises(OutputError, match="disk is full"):
            write_trace(self.trace(), path)
        assert path.read_bytes() == before
        assert [child.name for child in tmp_path.iterdir()] == [path.name]
