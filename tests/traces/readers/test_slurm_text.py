from __future__ import annotations

import math

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from presage.traces.readers.slurm.node_lists import MAX_NODES, expand_nodes
from presage.traces.readers.slurm.texts import (
    STATES,
    JobId,
    Memory,
    Tres,
    decoded,
    parse_amount,
    parse_bytes,
    parse_dependency,
    parse_duration_s,
    parse_exit_code,
    parse_gres,
    parse_job_id,
    parse_memory,
    parse_state,
    parse_tres,
)
from presage.traces.schema import Outcome

MIB = 2**20


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("00:05:16", 316),
        ("7-20:39:39", 7 * 86400 + 20 * 3600 + 39 * 60 + 39),
        ("02:10.584", 130.584),
        ("01:02:03.500", 3723.5),
        ("2-12", 60 * 3600),
        ("2-12:30", 60.5 * 3600),
        ("90", 5400),
        ("UNLIMITED", math.inf),
        ("unlimited", math.inf),
        ("Partition_Limit", None),
        ("INVALID", None),
        ("1:2:3:4", None),
        ("-5", None),
        ("", None),
    ],
)
def test_durations(text: str, seconds: float | None) -> None:
    assert parse_duration_s(text) == seconds


@pytest.mark.parametrize(
    ("text", "memory"),
    [
        ("4Gc", Memory(4096 * MIB, "cpu")),
        ("48000Mn", Memory(48000 * MIB, "node")),
        ("100M", Memory(100 * MIB, "job")),
        ("31.25Gn", Memory(32000 * MIB, "node")),
        ("2147486448Mn", Memory(2800 * MIB, "cpu")),  # the flag 2^31, and 2800 MiB
        ("9223372036854775908", Memory(100 * MIB, "cpu")),  # the flag 2^63, and 100 MiB
        ("9.22337e+18", Memory(None, "cpu")),  # the same, rounded
        ("8192.0", Memory(8192 * MIB, "job")),
        ("0n", Memory(None, "node")),
        ("?", None),
        ("n", None),
        ("", None),
    ],
)
def test_requested_memory(text: str, memory: Memory | None) -> None:
    assert parse_memory(text) == memory


def test_sizes_and_counts() -> None:
    assert parse_bytes("114944K") == 114944 * 1024
    assert parse_bytes("0.50G") == 2**29
    assert parse_bytes("123") == 123
    assert parse_bytes("4", unit="M") == 4 * MIB
    assert parse_bytes("18446744073709551614") is None
    assert parse_amount("1.50K") == 1536
    assert parse_amount("12") == 12
    assert parse_amount("twelve") is None


@pytest.mark.parametrize(
    ("text", "nodes"),
    [
        ("cpn-f15-[06,08,11-12]", ["cpn-f15-06", "cpn-f15-08", "cpn-f15-11", "cpn-f15-12"]),
        ("r[1-2]n[09-10]", ["r1n09", "r1n10", "r2n09", "r2n10"]),
        ("a[1-2]x,b,c[007]", ["a1x", "a2x", "b", "c007"]),
        ("n[98-101]", ["n98", "n99", "n100", "n101"]),
        ("login1", ["login1"]),
        ("n[0-999999999]", None),
        ("n[0-9999][0-9999]", None),
        ("n[1-", None),
        ("n[[1-2]]", None),
        ("n]1[", None),
        ("n[2-1]", None),
        ("n[a-c]", None),
        ("a,,b", None),
        ("two words", None),
        ("x" * 300 + "[0-9]", None),
    ],
)
def test_node_lists(text: str, nodes: list[str] | None) -> None:
    assert expand_nodes(text) == nodes


def test_node_lists_are_bounded_as_a_whole() -> None:
    half = MAX_NODES // 2
    assert len(expand_nodes(f"a[1-{half}],b[1-{half}]") or []) == MAX_NODES
    assert expand_nodes(f"a[1-{half}],b[1-{half + 1}]") is None


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 99)), min_size=1, max_size=20))
def test_expanding_gives_back_what_was_compressed(nodes: list[tuple[str, int]]) -> None:
    names = [f"{prefix}{number:03d}" for prefix, number in nodes]
    compressed = ",".join(f"{prefix}[{number:03d}-{number:03d}]" for prefix, number in nodes)
    assert expand_nodes(compressed) == names


def test_trackable_resources() -> None:
    named = "cpu=12,mem=48000M,node=1,billing=12,gres/gpu=2,gres/gpu:a100=2"
    assert parse_tres(named) == Tres(12, 48000 * MIB, 1, 2, "a100")
    numbered = "1=20,2=170000,3=18446744073709551614,4=1,5=20,1001=2"
    assert parse_tres(numbered) == Tres(20, 170000 * MIB, 1, 2, None)
    assert parse_tres("1=4,1002=1", gpu_id=1002) == Tres(cpus=4, gpus=1)
    assert parse_tres("gres/gpu:a100=1,gres/gpu:h100=2") == Tres(gpus=3, gpu_type="a100|h100")
    assert parse_tres("cpu=16,mem=187.50G,node=3") == Tres(16, 192000 * MIB, 3)
    assert parse_tres("billing=2+") is None
    assert parse_tres("garbage") is None


@pytest.mark.parametrize(
    ("text", "gpus"),
    [
        ("gpu:2", (2, None)),
        ("gpu:a100:2(S:0-1)", (2, "a100")),
        ("gres/gpu:4,shard:1", (4, None)),
        ("gres:gpu:v100:1,gres:gpu:k80:2", (3, "v100|k80")),
        ("PER_NODE:gpu:4", (4, None)),
        ("7696487:2", (2, None)),
        ("gpu", (1, None)),
        ("craynetwork:1", (0, None)),
        ("(null)", None),
    ],
)
def test_generic_resources(text: str, gpus: tuple[float, str | None] | None) -> None:
    assert parse_gres(text) == gpus


def test_every_state_is_known_in_every_spelling() -> None:
    for word in STATES:
        assert parse_state(word) == word
        assert parse_state(word.lower()) == word
    assert parse_state("CANCELLED by 423120") == "CANCELLED"
    assert parse_state("CANCELLED+") == "CANCELLED"
    assert parse_state("OUT_OF_ME+") == "OUT_OF_MEMORY"
    assert parse_state("C+") is None
    assert parse_state("SLEEPING") is None
    assert parse_state("") is None


def test_states_of_the_database() -> None:
    codes = {0: "PENDING", 1: "RUNNING", 3: "COMPLETED", 4: "CANCELLED", 5: "FAILED", 6: "TIMEOUT", 7: "NODE_FAIL"}
    codes |= {
        8: "PREEMPTED",
        9: "BOOT_FAIL",
        10: "DEADLINE",
        11: "OUT_OF_MEMORY",
        1024: "REQUEUED",
        0x2001: "RESIZING",
    }
    assert {code: parse_state(str(code)) for code in codes} == codes
    assert parse_state("99") is None
    assert parse_state("9" * 30) is None or parse_state("9" * 30) in STATES


def test_a_state_means_other_things_for_a_job_and_for_an_attempt() -> None:
    assert STATES["REQUEUED"].job == Outcome.PENDING
    assert STATES["REQUEUED"].attempt == Outcome.REQUEUED
    assert STATES["SUSPENDED"].job == Outcome.RUNNING
    assert STATES["BOOT_FAIL"].job == Outcome.NODE_FAILURE
    attempts_only = {Outcome.REQUEUED, Outcome.SUSPENDED}
    assert not attempts_only & {state.job for state in STATES.values()}


def test_exit_codes() -> None:
    assert parse_exit_code("7:0") == (7, None)
    assert parse_exit_code("0:9") == (0, 9)
    assert parse_exit_code("0") is None


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("123", JobId("123")),
        ("123_4", JobId("123_4", array_id="123", array_task=4)),
        ("123_[1-10%2]", JobId("123_[1-10%2]", array_id="123", is_pending_array=True)),
        ("123+1", JobId("123+1", het_id="123", het_offset=1)),
        ("123.batch", JobId("123", step="batch")),
        ("123.extern", JobId("123", step="extern")),
        ("123.0", JobId("123", step="0")),
        ("123_4.batch", JobId("123_4", array_id="123", array_task=4, step="batch")),
        ("123+1.0", JobId("123+1", het_id="123", het_offset=1, step="0")),
        ("12345678.ba+", JobId("12345678", step="ba+")),
        ("123_", None),
        ("123+", None),
        ("abc", None),
    ],
)
def test_job_ids(text: str, parts: JobId | None) -> None:
    assert parse_job_id(text) == parts


def test_dependencies() -> None:
    found = parse_dependency("afterok:12:13,afterany:14_2?after:15+10(unfulfilled),singleton,afternotok:16_*")
    assert [tuple(each) for each in found] == [
        ("afterok", "12", None),
        ("afterok", "13", None),
        ("afterany", "14_2", None),
        ("after", "15", 600.0),
        ("afternotok", "16", None),
    ]
    assert parse_dependency("garbage:x") == []


@given(st.text(max_size=40))
def test_no_text_makes_a_parser_fail(text: str) -> None:
    for parse in (
        parse_amount, parse_bytes, parse_dependency, parse_duration_s, parse_exit_code, parse_gres, parse_job_id,
        parse_memory, parse_state, parse_tres, expand_nodes,
    ):  # fmt: skip
        parse(text)


def test_decoding_parses_each_text_once_and_keeps_the_order() -> None:
    asked: list[str] = []

    def decode(text: str) -> tuple[int, str] | None:
        asked.append(text)
        return (len(text), text.upper()) if text != "bad" else None

    table = pl.DataFrame({"word": ["b", "aa", None, "bad", "b"], "row": [0, 1, 2, 3, 4]})
    result = decoded(table, "word", decode, {"size": pl.Int64, "loud": pl.String})
    assert sorted(asked) == ["aa", "b", "bad"]
    assert result["row"].to_list() == [0, 1, 2, 3, 4]
    assert result["size"].to_list() == [1, 2, None, None, 1]
    assert result["loud"].to_list() == ["B", "AA", None, None, "B"]
    assert decoded(table, "absent", decode, {"size": pl.Int64})["size"].null_count() == 5
