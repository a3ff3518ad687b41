from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from presage.orchestrator.hearing import MOST_RANGES, Heard, is_heard, is_late, with_heard

NUMBERS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 30)), max_size=15)


def hear(numbers: list[tuple[int, int]], heard: Heard = ()) -> tuple[Heard, list[tuple[int, int]]]:
    """Return what was heard in all, and what was new."""
    new = []
    for number in numbers:
        if not is_heard(heard, *number):
            new.append(number)
            heard = with_heard(heard, *number)
    return heard, new


@given(NUMBERS)
def test_each_number_is_new_once_in_any_order(numbers: list[tuple[int, int]]) -> None:
    heard, new = hear(numbers)
    assert new == list(dict.fromkeys(numbers))
    assert list(heard) == sorted(heard)
    assert sum(last - first + 1 for _, first, last in heard) == len(set(numbers))
    for number in numbers:
        assert is_late(heard, *number) == (number < max(each for each in numbers if each[0] == number[0]))


def test_a_stream_without_gaps_is_one_range_and_gaps_are_closed_by_what_comes_later() -> None:
    assert hear([(1, 5), (1, 7), (1, 6), (1, 8)])[0] == ((1, 5, 8),)
    assert hear([(1, 5), (2, 6)])[0] == ((1, 5, 5), (2, 6, 6))


def test_numbers_without_end_take_no_more_room_and_the_newest_are_still_told_apart() -> None:
    numbers = [(sub_job, 7 * number) for sub_job in (1, 2) for number in range(3 * MOST_RANGES)]
    heard, new = hear(numbers)
    assert new == numbers
    assert len(heard) == MOST_RANGES
    assert all(is_heard(heard, *number) for number in numbers[-MOST_RANGES:])
    assert not is_heard(heard, 2, 7 * (3 * MOST_RANGES - 1) - 3)
    assert is_heard(heard, 2, 3)  # what is long past is not told twice, though one of it may not be told
