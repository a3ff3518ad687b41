from __future__ import annotations

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

import matplotlib as mpl
import polars as pl
import pytest

from presage.errors import MissingDependencyError, UnknownNameError, UsageError
from presage.traces import Machine, Manifest, Trace, read_trace
from presage.traces.plots import FIGURES, _panels, _words, draw

if TYPE_CHECKING:
    from pathlib import Path

NOON_MS = 1_700_000_000_000


def trace_of(rows: list[dict[str, Any]], manifest: Manifest | None = None) -> Trace:
    rows = [{"job_id": str(number), **row} for number, row in enumerate(rows)]
    jobs = pl.DataFrame(rows, schema={"job_id": pl.String} if not rows else None, infer_schema_length=None)
    return Trace.create(jobs, manifest or Manifest())


def full_job(number: int) -> dict[str, Any]:
    submit_ms, wait_s, run_s = NOON_MS + number * 3_600_000, 60.0 * number, 100.0 * (number + 1)
    start_ms = submit_ms + int(wait_s * 1000)
    return {
        "submit_ms": submit_ms, "wait_s": wait_s, "run_s": run_s, "start_ms": start_ms,
        "end_ms": start_ms + int(run_s * 1000), "limit_s": 500.0, "cpus_alloc": float(1 + number % 4),
        "gpus_req": float(number % 3), "user": f"user{number % 3}", "outcome": ("completed", "failed")[number % 2],
    }  # fmt: skip


@pytest.fixture(scope="module")
def small() -> Trace:
    machine = Machine(nodes=2, cpus=4.0, gpus=2.0)
    notes = ("2 rows of the log were not in submit order; the trace is sorted",)
    return trace_of([full_job(number) for number in range(12)], Manifest("small", machine=machine, notes=notes))


@pytest.fixture(scope="module")
def small_page(small: Trace, tmp_path_factory: pytest.TempPathFactory) -> str:
    return page_of(small, tmp_path_factory.mktemp("page"), figures=list(FIGURES))


class Page(HTMLParser):
    """What a browser would look at in a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def values(self, attribute: str, tag: str | None = None) -> list[str | None]:
        return [attrs[attribute] for name, attrs in self.tags if attribute in attrs and tag in {None, name}]


def page_of(trace: Trace, folder: Path, **options: Any) -> str:
    draw(trace, folder / "page.html", **options)
    return (folder / "page.html").read_text()


@pytest.mark.parametrize(
    ("suffix", "magic"),
    [(".png", b"\x89PNG\r\n"), (".svg", b"<?xml"), (".pdf", b"%PDF-"), (".html", b"<!DOCTYPE html>")],
)
def test_the_suffix_says_as_what_and_equal_traces_give_equal_files(
    small: Trace, tmp_path: Path, suffix: str, magic: bytes
) -> None:
    first, second = tmp_path / f"first{suffix}", tmp_path / f"second{suffix}"
    figures = ["utilisation", "arrivals"]
    draw(small, str(first), figures=figures)
    draw(small, second, figures=figures)
    assert first.read_bytes().startswith(magic)
    assert first.read_bytes() == second.read_bytes()


def test_an_svg_is_well_formed_and_says_no_date(small: Trace, tmp_path: Path) -> None:
    draw(small, tmp_path / "page.svg", figures=["runtimes", "users"])
    text = (tmp_path / "page.svg").read_text()
    assert ET.fromstring(text).tag.endswith("svg")
    assert "dc:date" not in text


def test_the_page_loads_nothing_and_its_links_lead_somewhere(small_page: str) -> None:
    page = Page(small_page)
    assert not re.search(r"https?://|url\((?!#)|@import", small_page)
    assert not {tag for tag, _ in page.tags} & {"script", "link", "img", "iframe"}
    ids = page.values("id")
    assert len(ids) == len(set(ids))
    assert {f"#{name}" for name in ids} >= set(page.values("href"))
    assert {f"#{name}" for name in ids} >= set(re.findall(r"url\((#[^)]*)\)", small_page))
    assert page.values("href", "a") == [f"#{name}" for name in (*FIGURES, "summary", "notes")]


def test_the_page_tells_in_words_what_its_figures_show(small_page: str) -> None:
    labels = Page(small_page).values("aria-label", "svg")
    assert len(labels) == len(FIGURES)
    assert all(label and label.startswith(title) for label, title in zip(labels, FIGURES.values(), strict=True))
    assert "Half of the jobs wait for at most 5.5 min" in small_page
    assert "not in submit order" in small_page
    assert re.search(r"Run time, median</th><td>11 min<", small_page)
    assert '<th scope="row">Accounts</th><td><span class="unknown">not in this log</span>' in small_page


def test_the_page_can_take_dark_colours(small_page: str) -> None:
    assert "prefers-color-scheme: dark" in small_page
    drawings = "".join(re.findall(r"<svg.*?</svg>", small_page, re.DOTALL))
    assert re.findall(r"#[0-9a-f]{6}", drawings) == []


def test_what_a_log_says_is_text_and_never_markup(tmp_path: Path) -> None:
    evil = "<script>alert(1)</script>"
    manifest = Manifest(name=f"{evil} $\\frac$ 作业", notes=(evil,), scheduler=evil, acknowledgement=evil)
    rows = [
        {**full_job(number), "user": name} for number, name in enumerate([evil, "$x^", "李\n雷", "\x00\u200b"])
    ]
    text = page_of(trace_of(rows, manifest), tmp_path, figures=["users", "waits"])
    assert "<script" not in text
    assert "&lt;script&gt;" in text
    draw(trace_of(rows, manifest), tmp_path / "page.png", figures=["users"], title="作业 <b> $")


LACKING = {
    "utilisation": "This log has no processor counts",
    "queue": "This log has no start times",
    "arrivals": "This log has no submit times",
    "sizes": "This log has no processor counts",
    "runtimes": "This log has no run times",
    "requests": "This log has no requested times",
    "waits": "This log has no waits",
    "users": "This log has no users",
    "outcomes": "This log does not say how jobs ended",
    "gpus": "This log has no GPU jobs",
    "gantt": "This log has no jobs with a start, an end and a size",
}


@pytest.mark.parametrize("rows", [[], [{}]], ids=["no job", "a job without anything"])
def test_figures_that_a_log_cannot_fill_say_so(tmp_path: Path, rows: list[dict[str, Any]]) -> None:
    text = page_of(trace_of(rows), tmp_path, figures=list(FIGURES))
    captions = re.findall(r"<figcaption>(.*?)\.</figcaption>", text)
    assert dict(zip(FIGURES, captions, strict=True)) == LACKING


SPECIAL = {
    "one job": [full_job(3)],
    "no time passes": [{**full_job(0), "run_s": 0.0, "end_ms": NOON_MS}] * 2,
    "starts but no sizes": [{"submit_ms": 0, "start_ms": 5, "end_ms": 9, "wait_s": 0.005, "run_s": 0.004}],
    "nothing waits": [{**full_job(0), "submit_ms": NOON_MS + i, "start_ms": NOON_MS + i} for i in (0, 9_000)],
    "wild values": [
        {**full_job(1), "run_s": 1e300, "wait_s": -5.0, "limit_s": 1e-9, "cpus_alloc": 1e9, "gpus_req": 1e6},
        {**full_job(2), "run_s": float("nan"), "wait_s": float("inf"), "limit_s": 0.0, "cpus_alloc": 0.0},
        {**full_job(3), "cpus_alloc": 0.001, "gpus_req": 0.01, "wait_s": 1e-6, "run_s": 1e-6},
    ],
    "endless": [{**full_job(1), "cpus_alloc": float("inf"), "gpus_req": float("inf"), "run_s": float("inf")}],
    "far times": [{**full_job(0), "submit_ms": -(2**62)}, {**full_job(1), "end_ms": 2**62}],
    "years": [full_job(0), {**full_job(1), "submit_ms": 4 * NOON_MS, "start_ms": None, "end_ms": 5 * NOON_MS}],
}  # fmt: skip


@pytest.mark.parametrize("rows", SPECIAL.values(), ids=SPECIAL.keys())
def test_unusual_traces_can_be_drawn(tmp_path: Path, rows: list[dict[str, Any]]) -> None:
    trace = trace_of(rows, Manifest(machine=Machine(cpus=4.0), time_zone="America/Los_Angeles"))
    figures = [name for name in FIGURES if name not in {"arrivals", "users", "outcomes"}]
    assert len(Page(page_of(trace, tmp_path, figures=figures)).values("aria-label", "svg")) == len(figures)


def test_relative_times_are_flagged(tmp_path: Path) -> None:
    trace = trace_of([full_job(0), full_job(9)], Manifest(absolute_time=False, time_zone="Asia/Tokyo"))
    text = page_of(trace, tmp_path, figures=["arrivals", "queue"])
    assert "hours and days count from its own zero" in text
    assert "hours since the first submit" in text


def test_figures_are_chosen_by_name_in_order_and_once(small: Trace, tmp_path: Path) -> None:
    text = page_of(small, tmp_path, figures=["waits", "sizes", "waits"], title="Chosen")
    assert re.findall(r'<figure id="(\w+)"', text) == ["waits", "sizes"]
    assert "<h1>Chosen</h1>" in text
    without_gpus = trace_of([{"submit_ms": 0}])
    assert 'id="gpus"' not in page_of(without_gpus, tmp_path)
    assert set(_panels.FIGURES) == set(FIGURES)


def test_wrong_calls_are_clear_errors(small: Trace, tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'waits'"):
        draw(small, tmp_path / "page.png", figures=["wait"])
    with pytest.raises(UsageError, match=r"'\.gif'.*\.png, \.svg, \.pdf, \.html"):
        draw(small, tmp_path / "page.gif")
    with pytest.raises(UsageError, match="without a suffix"):
        draw(small, tmp_path / "page")
    with pytest.raises(UsageError, match="There is no folder"):
        draw(small, tmp_path / "nowhere" / "page.png", figures=["waits"])


def test_without_matplotlib_it_says_what_to_install(
    small: Trace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.startswith("presage.traces.plots._")]:
        monkeypatch.delitem(sys.modules, name)
    for name in [name for name in sys.modules if name.partition(".")[0] == "matplotlib"]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingDependencyError, match=r"presage\[plot\]"):
        draw(small, tmp_path / "page.png")


def test_the_user_s_own_settings_neither_matter_nor_change(small: Trace, tmp_path: Path) -> None:
    draw(small, tmp_path / "before.svg", figures=["waits"])
    with mpl.rc_context({"font.size": 30.0, "axes.facecolor": "black"}):
        draw(small, tmp_path / "after.svg", figures=["waits"])
        assert mpl.rcParams["font.size"] == 30.0
    assert (tmp_path / "before.svg").read_bytes() == (tmp_path / "after.svg").read_bytes()


@pytest.mark.slow
def test_another_process_draws_the_same_without_global_state(small: Trace, tmp_path: Path) -> None:
    small.save(tmp_path / "small.parquet")
    draw(small, tmp_path / "here.svg", figures=["queue", "sizes", "gpus"])
    code = (
        "import sys; from presage.traces import Trace; from presage.traces import plots\n"
        "assert 'matplotlib' not in sys.modules\n"
        "plots.draw(Trace.load(sys.argv[1]), sys.argv[2], figures=['queue', 'sizes', 'gpus'])\n"
        "assert 'matplotlib.pyplot' not in sys.modules"
    )
    there = tmp_path / "there.svg"
    command = [sys.executable, "-W", "error", "-c", code, str(tmp_path / "small.parquet"), str(there)]
    subprocess.run(command, check=True, env={**os.environ, "PYTHONHASHSEED": "77"})
    assert there.read_bytes() == (tmp_path / "here.svg").read_bytes()


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (0.0042, "4.2 ms"),
        (59.96, "60 s"),
        (90, "1.5 min"),
        (36_000, "10 h"),
        (28_765_020, "333 d"),
        (1e9, "32 y"),
    ],
)
def test_durations_in_words(seconds: float, text: str) -> None:
    assert _words.duration(seconds) == text


def test_numbers_in_words() -> None:
    assert [_words.percent(share) for share in (0, 0.0004, 0.017, 0.7, 2.03)] == [
        "0%",
        "<0.1%",
        "1.7%",
        "70%",
        "203%",
    ]
    assert [_words.count(value) for value in (8192.0, 0.5, 1234.25)] == ["8,192", "0.5", "1,234.25"]
    assert [_words.brief(value) for value in (0.001, 0.034, 4.0, 4.23, 1234.5)] == [
        "<0.01",
        "0.034",
        "4",
        "4.2",
        "1,234",
    ]
    assert _words.shortened("a\n b  c", 5) == "a b c"
    assert _words.shortened("abcdef", 5) == "abcd…"


@pytest.mark.shared_data
def test_pictures_of_real_logs_stay_small(shared_data: Path, tmp_path: Path) -> None:
    kth = read_trace(shared_data / "KTH-SP2-1996-2.1-cln.swf.gz", format="swf")
    draw(kth, tmp_path / "kth.html")
    assert (tmp_path / "kth.html").stat().st_size < 350_000
    assert "86 jobs arrive per day" in (tmp_path / "kth.html").read_text()
    nasa = page_of(
        read_trace(shared_data / "NASA-iPSC-1993-3.1-cln.swf.gz", format="swf"), tmp_path, figures=["waits"]
    )
    assert "This log has no waits" in nasa
