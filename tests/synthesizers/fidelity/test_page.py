from __future__ import annotations

import re
from pathlib import Path

import pytest

from presage.errors import UsageError
from presage.synthesizers.fidelity import Report, report
from presage.synthesizers.fidelity.page import sheet_of, write_page
from presage.traces import Manifest, Trace
from tests.synthesizers.fidelity.conftest import make_log, numbered

pytest.importorskip("matplotlib")


@pytest.fixture(scope="module")
def made() -> Trace:
    return numbered(make_log(400, seed=2, name="made <b>"))


@pytest.fixture(scope="module")
def found(log: Trace, made: Trace, later: Trace) -> Report:
    return report(log, made, later)


def test_a_page_needs_nothing_from_elsewhere(found: Report, log: Trace, made: Trace, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    write_page(found, log, made, path)
    page = path.read_text()
    assert page.count("<figure") == 13
    assert "made &lt;b&gt;" in page
    assert "<b>" not in page
    assert not re.search(r'(src|href)="(?!#)', page)
    assert "<image" not in page  # the page's own policy would block it
    assert "400 synthetic jobs" in page


def test_tables_stand_beside_what_is_natural(found: Report, log: Trace, made: Trace) -> None:
    sheet = sheet_of(found, log, made)
    assert [table.caption for table in sheet.tables] == ["How far from the log", "In time", "What it gives away"]
    for table in sheet.tables:
        assert all(len(row) == 1 + len(table.columns) for row in table.rows)


def test_a_handful_of_jobs_says_what_was_not_measured(tmp_path: Path) -> None:
    bare = Trace.create(make_log(5).jobs.select("job_id", "submit_ms", "run_s"), Manifest())
    path, again = tmp_path / "report.htm", tmp_path / "again.html"
    few = report(bare, bare)
    write_page(few, bare, bare, path)
    page = path.read_text()
    assert "no later jobs of the log were given" in page
    assert "does not say how large its machine" in page
    assert "There are only 5 jobs to tell apart" in page
    write_page(few, bare, bare, again)
    assert again.read_bytes() == path.read_bytes()


def test_only_html_is_written(found: Report, log: Trace, made: Trace, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"\.png"):
        write_page(found, log, made, tmp_path / "report.png")
