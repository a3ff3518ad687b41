from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np
import pytest

from presage.errors import MissingDependencyError, UsageError
from presage.traces.plots import Contender, Contest, Result, draw_contest
from presage.traces.statistics import TimeSeries

DAY_MS = 86_400_000


def result(
    metric: str, ratio: float, low: float | None = None, high: float | None = None, **fields: Any
) -> Result:
    return Result(metric, 100.0, 100.0 * ratio, ratio_low=low, ratio_high=high, **fields)


def contender(name: str, *results: Result, seed: int = 0, longest_s: float = 5.0) -> Contender:
    rng = np.random.default_rng(seed)
    edges = np.arange(11) * DAY_MS + 1_700_000_000_000
    waits = rng.exponential(1000, 200) * (rng.random(200) < 0.6) * longest_s / 5
    return Contender(name, waits, TimeSeries(edges, rng.random(10) * 20, None), results)


def contest(*contenders: Contender, **fields: Any) -> Contest:
    return Contest("Test: what if", "baseline fcfs", contender("baseline"), contenders, **fields)


USUAL = contest(
    contender("more", result("mean wait", 0.5, 0.4, 0.6, unit="seconds"), result("share", 0.98, 0.9, 1.1), seed=1),
    contender("less", result("mean wait", 3.0, 2.0, 4.0, unit="seconds"), result("max", 40.0), seed=2),
)


@pytest.mark.parametrize(
    ("suffix", "magic"),
    [(".png", b"\x89PNG\r\n"), (".svg", b"<?xml"), (".pdf", b"%PDF-"), (".html", b"<!DOCTYPE html>")],
)
def test_equal_contests_give_equal_files(tmp_path: Path, suffix: str, magic: bytes) -> None:
    first, second = tmp_path / f"first{suffix}", tmp_path / f"second{suffix}"
    draw_contest(USUAL, first)
    draw_contest(USUAL, str(second))
    assert first.read_bytes().startswith(magic)
    assert first.read_bytes() == second.read_bytes()
    if suffix == ".svg":
        assert ET.fromstring(first.read_text()).tag.endswith("svg")


def test_the_page_tells_in_words_and_numbers_who_wins_and_who_loses(tmp_path: Path) -> None:
    draw_contest(USUAL, tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text()
    assert "more is clearly better in 1 metrics and worse in 0; less is clearly better in 0 metrics" in text
    assert "<td>50 s (−50%; −60% to −40%)</td>" in text
    assert "<td>4,000 (×40)</td>" in text
    # A metric that a contender does not have is not told to be zero.
    assert '<td><span class="unknown">' in text
    ids = re.findall(r' id="([^"]*)"', text)
    assert len(ids) == len(set(ids))
    assert {f"#{name}" for name in ids} >= {*re.findall(r'(?:href="|url\()(#[^)"]*)', text)}
    drawings = "".join(re.findall(r"<svg.*?</svg>", text, re.DOTALL))
    assert re.findall(r"#[0-9a-f]{6}", drawings) == []


def test_all_that_is_not_drawn_is_told(tmp_path: Path) -> None:
    many = contest(*(contender(f"v{n}", result("mean wait", 1 + n / 10)) for n in range(8)))
    draw_contest(many, tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text()
    assert "3 variants not drawn" in text
    assert all(f'<th scope="col">v{n}</th>' in text for n in range(8))


@pytest.mark.parametrize(
    "unusual",
    [
        contest(contender("nothing to relate to", Result("mean wait", 0.0, 5.0))),
        contest(contender("to nothing", result("mean wait", 0.0, 0.0, 0.0))),
        contest(contender("the same", result("mean wait", 1.0, 1.0, 1.0))),
        contest(contender("far", result("mean wait", 1e9, 1e-9, 1e12), result("x", 1.001, 0.999, 1.002))),
        contest(contender("<script>alert(1)</script> $x^ 作业 " * 9, result("mean <b> wait", 1.2))),
        contest(contender("no dates", result("mean wait", 0.9)), dated=False),
    ],
    ids=lambda each: each.contenders[0].name[:20],
)
def test_unusual_contests_can_be_drawn(tmp_path: Path, unusual: Contest) -> None:
    draw_contest(unusual, tmp_path / "page.png")
    draw_contest(unusual, tmp_path / "page.html")
    assert "<script" not in (tmp_path / "page.html").read_text()


def test_a_contest_without_waits_says_so(tmp_path: Path) -> None:
    nobody = Contender("baseline", np.zeros(5), TimeSeries(np.empty(0, np.int64), np.empty(0), None))
    draw_contest(Contest("t", "h", nobody, (nobody,)), tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text().count("Nobody waits.") >= 3


def test_wrong_calls_are_clear_errors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match=r"'\.gif'"):
        draw_contest(USUAL, tmp_path / "page.gif")
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingDependencyError, match=r"presage\[plot\]"):
        draw_contest(USUAL, tmp_path / "page.png")
