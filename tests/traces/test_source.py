from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import polars as pl
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from presage.errors import UnknownFormatError, UnreadableSourceError, UsageError
from presage.traces import READERS, ReadOptions, Source, Trace, TraceBuilder, detect, read_trace
from presage.traces.source import Head

PACK = {"gz": gzip.compress, "zst": zstandard.compress, "bz2": bz2.compress, "xz": lzma.compress}


def write(folder: Path, content: bytes, name: str = "log.txt") -> Source:
    path = folder / name
    path.write_bytes(content)
    return Source(path, max_line_bytes=2048)


def fail(line: int, reason: str, text: str) -> None:
    raise AssertionError((line, reason, text))


@pytest.mark.parametrize("codec", PACK)
def test_compressed_bytes_are_those_packed(codec: str, tmp_path: Path) -> None:
    content = b"some text\n" * 100_000
    source = write(tmp_path, PACK[codec](content) + PACK[codec](b"and a second part\n"), f"log.txt.{codec}")
    assert source.read_bytes() == content + b"and a second part\n"
    assert source.head.name == "log.txt"
    assert source.path is not None
    assert Source(source.path.rename(tmp_path / f"LOG.txt.{codec.upper()}")).head.name == "LOG.txt"


@pytest.mark.parametrize("codec", PACK)
def test_every_cut_of_a_compressed_file_is_noticed(codec: str, tmp_path: Path) -> None:
    packed = PACK[codec](bytes(range(256)) * 40)
    for length in range(7, len(packed) - 1, 11):
        with pytest.raises(UnreadableSourceError, match=r"ends in the middle|damaged"):
            write(tmp_path, packed[:length]).read_bytes()


def test_bytes_behind_a_gzip_stream_are_noticed_and_padding_is_not(tmp_path: Path) -> None:
    packed = gzip.compress(b"a\n")
    assert write(tmp_path, packed + b"\0" * 512).read_bytes() == b"a\n"
    with pytest.raises(UnreadableSourceError, match="bytes behind"):
        write(tmp_path, packed + b"junk").read_bytes()


@given(
    st.lists(st.binary(max_size=3000).map(lambda line: line.replace(b"\n", b"")), max_size=20),
    st.integers(1, 5000),
    st.booleans(),
)
def test_blocks_hold_every_line_once_and_number_them(
    tmp_path_factory: pytest.TempPathFactory, lines: list[bytes], block_bytes: int, ends_in_newline: bool
) -> None:
    lines = [b"no magic number", *lines]
    content = b"\n".join(lines) + (b"\n" if ends_in_newline else b"")
    source = write(tmp_path_factory.mktemp("blocks"), content)
    rejected: set[int] = set()
    seen: dict[int, bytes] = {}
    for first, block in source.blocks(lambda line, *_: rejected.add(line), block_bytes):
        assert block.endswith(b"\n")
        seen.update(enumerate(block.split(b"\n")[:-1], start=first))
    for number, line in enumerate(content.split(b"\n"), start=1):
        if len(line) > source.max_line_bytes:
            assert number in rejected
        else:
            assert seen.get(number, b"") == line


def test_a_line_of_100_mb_is_rejected_in_bounded_memory(tmp_path: Path) -> None:
    path = tmp_path / "long.swf"
    row = b"1 0 1 1 1 -1 -1 1 10 -1 1 1 1 1 1 1 -1 -1\n"
    with path.open("wb") as file:
        file.write(row)
        for _ in range(100):
            file.write(b"9" * 1_000_000)
        file.write(b"\n" + row.replace(b"1", b"2", 1))
    trace = read_trace(path)
    assert trace.jobs["job_id"].to_list() == ["1", "2"]
    assert trace.rejects.select("line", "reason").rows() == [(2, "the line is longer than 16 MiB")]


def test_lines_in_another_encoding_are_read_and_counted(tmp_path: Path) -> None:
    source = write(tmp_path, "grün\n".encode() + "grün\n".encode("latin-1"))
    assert [line for _, line in source.lines(fail)] == ["grün", "grün"]
    assert source.lines_not_utf8 == 1


def test_a_byte_order_mark_is_no_part_of_the_text(tmp_path: Path) -> None:
    assert next(write(tmp_path, b"\xef\xbb\xbfjob\r\n").lines(fail)) == (1, "job")


@pytest.mark.parametrize("content", [b"", b"\n\n  \n", gzip.compress(b"", mtime=0)])
def test_empty_files_say_so(content: bytes, tmp_path: Path) -> None:
    with pytest.raises(UnreadableSourceError, match="is empty"):
        read_trace(write(tmp_path, content).path or "")


def test_missing_files_and_folders_say_so(tmp_path: Path) -> None:
    with pytest.raises(UnreadableSourceError, match="There is no file"):
        read_trace(tmp_path / "nothing")
    with pytest.raises(UnreadableSourceError, match="is a folder"):
        read_trace(tmp_path)


@pytest.mark.parametrize("content", [bytes(range(256)) * 10, b"\x7fELF\0\0\0", "schön\n".encode("utf-16")])
def test_binary_files_are_no_log(content: bytes, tmp_path: Path) -> None:
    with pytest.raises(UnknownFormatError, match="binary file"):
        detect(write(tmp_path, content))


def test_unknown_text_is_no_log(tmp_path: Path) -> None:
    with pytest.raises(UnknownFormatError, match="no known log format"):
        detect(write(tmp_path, b"Dear diary,\ntoday it rained.\n"))


@given(st.binary(max_size=300) | st.text(max_size=300).map(str.encode))
def test_recognition_never_fails(raw: bytes) -> None:
    for name in READERS:
        assert 0 <= READERS.get(name)().match(Head("log", raw)) <= 100


def test_progress_is_told_in_bytes_on_disk(tmp_path: Path) -> None:
    path = tmp_path / "log.gz"
    path.write_bytes(gzip.compress(b"x\n" * 50_000))
    told: list[int] = []
    Source(path, on_bytes=told.append).read_bytes()
    assert sum(told) == path.stat().st_size


def test_repeated_ids_are_kept_apart_and_repeated_rows_rejected(tmp_path: Path) -> None:
    row = "{} 0 1 1 1 -1 -1 1 10 -1 1 {} 1 1 1 1 -1 -1\n"
    source = write(tmp_path, "".join(row.format(*cells) for cells in [(1, 5), (1, 6), (1, 5), (2, 5)]).encode())
    trace = read_trace(source.path or "")
    assert trace.jobs.select("job_id", "user").rows() == [("1", "5"), ("1~2", "6"), ("2", "5")]
    assert trace.rejects["reason"].to_list() == ["the same row stands earlier in the log"]
    assert trace.manifest.counts["duplicate_ids"] == 1


def test_spilling_to_disk_gives_the_same_trace(tmp_path: Path, fixtures: Path) -> None:
    from presage.traces.readers import read_sources

    spill = tmp_path / "spill"
    spill.mkdir()
    into = TraceBuilder(spill=spill)
    read_sources([Source(fixtures / "swf.swf")], into)
    manifest = into.build_file(tmp_path / "out.parquet")
    direct = read_trace(fixtures / "swf.swf")
    loaded = Trace.load(tmp_path / "out.parquet")
    assert manifest == loaded.manifest == direct.manifest
    assert loaded.jobs.equals(direct.jobs)
    assert loaded.edges.equals(direct.edges)


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_a_named_pipe_is_read_as_a_file_is(pack: Callable[[bytes], bytes], tmp_path: Path, fixtures: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    content = pack((fixtures / "swf.swf").read_bytes())
    writer = threading.Thread(target=pipe.write_bytes, args=(content,))
    writer.start()
    trace = read_trace(pipe)
    writer.join()
    assert trace.jobs.equals(read_trace(fixtures / "swf.swf").jobs)


def test_parquet_is_read_from_a_pipe_and_compressed(tmp_path: Path, fixtures: Path) -> None:
    direct = read_trace(fixtures / "swf.swf")
    direct.save(tmp_path / "t.parquet")
    packed = tmp_path / "t.parquet.gz"
    packed.write_bytes(gzip.compress((tmp_path / "t.parquet").read_bytes()))
    assert read_trace(packed).jobs.equals(direct.jobs)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=((tmp_path / "t.parquet").read_bytes(),))
    writer.start()
    assert read_trace(pipe).jobs.equals(direct.jobs)
    writer.join()


def test_a_file_that_cannot_be_read_says_so() -> None:
    with pytest.raises(UnreadableSourceError, match="mem cannot be read: Input/output error"):
        read_trace("/proc/self/mem")


def test_standard_input_that_is_closed_or_fails_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(UnreadableSourceError, match="Standard input is closed"):
        read_trace("-")

    class Broken(io.RawIOBase):
        def read(self, size: int = -1) -> bytes:
            raise OSError(5, "Input/output error")

    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=Broken()))
    with pytest.raises(UnreadableSourceError, match=r"<stdin> cannot be read.*Input/output error"):
        read_trace("-")


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"x_a": ["1"]}, {"x_b": [2]}),
        ({"x_a": [1]}, {"x_a": ["b"]}),
        ({"x_a": [["a", "b"]]}, {"x_a": ["b"]}),
        ({}, {"x_a": [1.5]}),
    ],
)
def test_spilled_batches_may_have_other_leftovers(
    first: dict[str, list[object]], second: dict[str, list[object]], tmp_path: Path
) -> None:
    into = TraceBuilder(spill=tmp_path)
    into.add_jobs(pl.DataFrame({"job_id": ["1"], "submit_ms": [1], **first}))
    into.add_jobs(pl.DataFrame({"job_id": ["2"], "submit_ms": [2], **second}))
    into.build_file(tmp_path / "out.parquet")
    jobs = Trace.load(tmp_path / "out.parquet").jobs
    assert jobs["job_id"].to_list() == ["1", "2"]
    assert {name for name in jobs.columns if name.startswith("x_")} == {*first, *second}
    assert all(jobs[name].drop_nulls().len() for name in (*first, *second))


@pytest.mark.parametrize("zone", ["Mars/Olympus", "posix/nowhere"])
def test_a_zone_that_does_not_exist_is_a_wrong_call(zone: str) -> None:
    with pytest.raises(UsageError, match="is not a time zone"):
        ReadOptions(time_zone=zone)


def test_a_zone_that_is_not_given_is_utc_for_logs_that_know_none() -> None:
    assert (ReadOptions().time_zone, ReadOptions().time_zone_or_utc) == (None, "UTC")
    assert ReadOptions(time_zone="Asia/Tokyo").time_zone_or_utc == "Asia/Tokyo"
