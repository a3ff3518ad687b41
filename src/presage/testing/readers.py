"""The contract of a trace reader as tests."""

from __future__ import annotations

import gzip
import io
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from presage.errors import PresageError, RejectedRowsError, UnreadableSourceError
from presage.traces import ReadOptions, Source, Trace, detect, read_trace
from presage.traces.schema import TABLES

GARBAGE_LINE = 'x"y,|;{\t}] not a row of any log'


class ReaderContract:
    """What every reader must do with a good log, a damaged one, and no log at all."""

    format: ClassVar[str]
    """The registered name."""
    sample: ClassVar[Path]
    """A small good log."""
    jobs: ClassVar[int]
    """How many jobs the sample has."""
    line_based: ClassVar[bool] = True
    """Whether a bad line can be told apart from its neighbours; False for one-document formats."""
    options: ClassVar[ReadOptions] = ReadOptions()

    def read(self, path: str | Path, **options: object) -> Trace:
        """Read `path` as this format with the suite's options."""
        merged = ReadOptions(**{**vars(self.options), **options})
        return read_trace(path, format=self.format, options=merged)

    def test_recognises_its_own_logs(self) -> None:
        assert detect(Source(self.sample)) == self.format

    def test_reads_every_job_of_a_good_log(self) -> None:
        trace = self.read(self.sample)
        assert trace.rejects.rows() == []
        assert len(trace) == self.jobs

    def test_gives_canonical_tables(self) -> None:
        trace = self.read(self.sample)
        for name, columns in TABLES.items():
            schema = trace.table(name).schema
            assert {column: schema[column] for column in columns} == columns
        assert trace.jobs["job_id"].n_unique() == len(trace)
        assert trace.jobs["submit_ms"].drop_nulls().is_sorted()

    def test_survives_saving_and_loading(self, tmp_path: Path) -> None:
        trace = self.read(self.sample)
        trace.save(tmp_path / "trace.parquet")
        loaded = Trace.load(tmp_path / "trace.parquet")
        assert loaded.manifest == trace.manifest
        for name in TABLES:
            assert_frame_equal(loaded.table(name), trace.table(name))

    def test_reads_the_same_plain_compressed_and_piped(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        content = self.sample.read_bytes()
        expected = self.read(self.sample).jobs
        zipped = tmp_path / f"{self.sample.name}.gz"
        zipped.write_bytes(gzip.compress(content))
        zstd = tmp_path / f"{self.sample.name}.zst"
        zstd.write_bytes(zstandard.compress(content))
        monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(content)))
        for path in (zipped, zstd, "-"):
            assert_frame_equal(self.read(path).jobs, expected)

    def test_a_truncated_file_is_a_clear_error(self, tmp_path: Path) -> None:
        for suffix, packed in (
            (".gz", gzip.compress(self.sample.read_bytes())),
            (".zst", zstandard.compress(self.sample.read_bytes())),
        ):
            cut = tmp_path / f"cut{suffix}"
            cut.write_bytes(packed[: len(packed) // 2])
            with pytest.raises(UnreadableSourceError, match=r"ends in the middle|damaged"):
                self.read(cut)

    def test_an_empty_file_is_a_clear_error(self, tmp_path: Path) -> None:
        empty = tmp_path / "empty"
        empty.write_bytes(b"")
        with pytest.raises(UnreadableSourceError, match="is empty"):
            self.read(empty)

    def test_a_garbage_line_costs_no_other_line(self, tmp_path: Path) -> None:
        if not self.line_based:
            pytest.skip("the format is one document")
        lines = self.sample.read_text().splitlines()
        damaged = tmp_path / self.sample.name
        damaged.write_text("\n".join([*lines, GARBAGE_LINE]) + "\n")
        trace = self.read(damaged)
        assert len(trace) == self.jobs
        assert trace.rejects["line"].to_list() == [len(lines) + 1]
        assert trace.manifest.counts["rejected"] == 1
        with pytest.raises(RejectedRowsError, match=f"line {len(lines) + 1}"):
            self.read(damaged, strict=True)

    @settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.differing_executors])
    @given(data=st.data())
    def test_damaged_bytes_give_a_trace_or_a_clear_error(self, data: st.DataObject) -> None:
        content = bytearray(self.sample.read_bytes())
        for _ in range(data.draw(st.integers(1, 6))):
            at = data.draw(st.integers(0, len(content)))
            length = data.draw(st.integers(0, 12))
            content[at : at + length] = data.draw(st.binary(max_size=12))
        self._must_not_crash(bytes(content))

    @settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.differing_executors])
    @given(content=st.binary(max_size=400) | st.text(max_size=400).map(str.encode))
    def test_any_bytes_give_a_trace_or_a_clear_error(self, content: bytes) -> None:
        self._must_not_crash(content)

    def _must_not_crash(self, content: bytes) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "log"
            path.write_bytes(content)
            try:
                trace = self.read(path)
            except PresageError as error:
                assert str(error)  # noqa: PT017  (any clear error is right)
            else:
                assert trace.manifest.counts["rejected"] == len(trace.rejects)
