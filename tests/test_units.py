from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from presage.errors import UsageError
from presage.units import format_bytes, format_seconds, parse_bytes, parse_seconds, spell_seconds


@pytest.mark.parametrize(
    ("text", "expected"),
    [("178 GiB", 178 << 30), ("178G", 178 << 30), ("32 GB", 32 * 10**9), ("1.5k", 1536), ("0", 0), (4096, 4096)],
)
def test_memory_is_read_as_people_and_schedulers_write_it(text: str | float, expected: int) -> None:
    assert parse_bytes(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [("90", 90), ("15min", 900), ("4h", 14_400), ("1.5 d", 129_600), ("4:00:00", 14_400), ("1-12:00:00", 129_600),
     ("0:30", 1800), (12.5, 12.5)],
)  # fmt: skip
def test_durations_are_read_as_people_and_schedulers_write_them(text: str | float, expected: float) -> None:
    assert parse_seconds(text) == expected


@pytest.mark.parametrize("text", ["", "GiB", "-3h", "4 apples", "1e400", "9" * 30, "٣h", True, float("nan")])
def test_anything_else_is_one_clear_error(text: str | float) -> None:
    with pytest.raises(UsageError, match="is no length of time"):
        parse_seconds(text)
    with pytest.raises(UsageError, match="is no amount of memory"):
        parse_bytes(text)


def test_amounts_are_written_as_people_read_them() -> None:
    assert format_bytes(178 << 30) == "178 GiB"
    assert format_bytes(1_500) == "1.465 KiB"
    assert format_seconds(129_600) == "1-12:00:00"
    assert format_seconds(59.2) == "00:01:00"
    assert [spell_seconds(each) for each in (42, 900, 30 * 3600, 605_520)] == ["42 s", "15 min", "30 h", "168.2 h"]


@given(st.integers(0, 10**8))
def test_written_durations_are_read_back(seconds: int) -> None:
    assert parse_seconds(format_seconds(seconds)) == seconds
