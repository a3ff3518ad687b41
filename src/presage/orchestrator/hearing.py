"""Which of what a job told was heard before: the same may come by its file and over the network.

Numbers grow within a sub-job. What was heard is kept as ranges, in order. A stream without gaps is one range;
where there are too many, the gap between the two lowest counts as heard.
"""

from __future__ import annotations

from bisect import bisect_right

Heard = tuple[tuple[int, int, int], ...]
"""Ranges of numbers: of which sub-job, the first, the last."""
MOST_RANGES = 20
_MOST = 2**63


def is_heard(heard: Heard, sub_job: int, number: int) -> bool:
    """Return whether a number is in one of the ranges."""
    at = bisect_right(heard, (sub_job, number, _MOST)) - 1
    return at >= 0 and heard[at][0] == sub_job and number <= heard[at][2]


def is_late(heard: Heard, sub_job: int, number: int) -> bool:
    """Return whether something that the same sub-job told after this number was heard."""
    return any(number < last for of, _, last in heard if of == sub_job)


def are_others_heard(heard: Heard, sub_job: int) -> bool:
    """Return whether anything was heard of another sub-job; which of two came first their numbers do not say."""
    return any(of != sub_job for of, _, _ in heard)


def with_heard(heard: Heard, sub_job: int, number: int) -> Heard:
    """Return the ranges with a number that is in none of them."""
    at = bisect_right(heard, (sub_job, number, _MOST))
    before, behind, first, last = heard[:at], heard[at:], number, number
    if before and before[-1][0] == sub_job and before[-1][2] == number - 1:
        before, first = before[:-1], before[-1][1]
    if behind and behind[0][0] == sub_job and behind[0][1] == number + 1:
        behind, last = behind[1:], behind[0][2]
    ranges = (*before, (sub_job, first, last), *behind)
    if len(ranges) <= MOST_RANGES:
        return ranges
    lowest, second = ranges[:2]
    begin = lowest[1] if lowest[0] == second[0] else 0
    return ((second[0], begin, second[2]), *ranges[2:])
