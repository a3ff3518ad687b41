from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from presage.testing import make_job, make_trace
from presage.traces.plots import draw
from presage.traces.plots._gantt import place_lowest

job = st.tuples(st.integers(0, 20), st.integers(1, 10), st.integers(1, 6))


@given(st.lists(job, min_size=1, max_size=25))
def test_pieces_never_overlap_and_add_up_to_the_jobs(jobs: list[tuple[int, int, int]]) -> None:
    jobs = sorted(jobs, key=lambda each: each[0])
    starts, ends = [start for start, _, _ in jobs], [start + run for start, run, _ in jobs]
    pieces = place_lowest(starts, ends, [size for _, _, size in jobs])
    for position, (_, _, size) in enumerate(jobs):
        assert sum(high - low for which, low, high in pieces if which == position) == size
    for first, (one, low, high) in enumerate(pieces):
        for other, other_low, other_high in pieces[first + 1 :]:
            together = starts[one] < ends[other] and starts[other] < ends[one]
            assert not (together and low < other_high and other_low < high)


def test_a_job_takes_the_lowest_free_processors_in_pieces() -> None:
    # Job 0 holds 0-1, job 1 holds 2-3; job 0 ends, and job 2 of three processors takes 0-1 and 4.
    assert place_lowest([0, 0, 5], [5, 9, 9], [2, 2, 3]) == [(0, 0, 2), (1, 2, 4), (2, 0, 2), (2, 4, 5)]


def test_the_chart_is_drawn_only_when_asked_for(tmp_path: Path) -> None:
    trace = make_trace(make_job(0, 1, 5, 2, user="a"), make_job(2, 0, 3, user="b"), cpus=4)
    draw(trace, tmp_path / "gantt.svg", figures=["gantt"])
    draw(trace, tmp_path / "page.svg")
    assert b"Jobs over time" not in (tmp_path / "page.svg").read_bytes()
    assert (tmp_path / "gantt.svg").stat().st_size > 5_000


def test_a_log_without_starts_says_so(tmp_path: Path) -> None:
    draw(make_trace({"submit_ms": 0}), tmp_path / "gantt.html", figures=["gantt"])
    assert "no jobs with a start" in (tmp_path / "gantt.html").read_text()
