"""Every command, snippet and link of README and docs is executed or resolved."""

from __future__ import annotations

import importlib
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from tests.docs_runner import ROOT, blocks_of, environment_in, matches, run_document
from tests.warm_commands import WarmCommands

EXECUTED = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
DOCUMENTS = [*EXECUTED, ROOT / "CHANGELOG.md"]
OUTSIDE = ("http://", "https://", "mailto:")


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.fixture(scope="module")
def warm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WarmCommands]:
    commands = WarmCommands(environment_in(tmp_path_factory.mktemp("home")))
    yield commands
    commands.close()


@pytest.mark.slow
@pytest.mark.parametrize("document", [path for path in EXECUTED if blocks_of(path)], ids=name_of)
def test_every_block_runs(document: Path, tmp_path: Path, warm: WarmCommands) -> None:
    # The page that is read first is run to the letter, each command with a start of its own.
    run_document(document, tmp_path, None if document.name == "README.md" else warm)


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_every_link_resolves(document: Path) -> None:
    for target in links_of(document):
        if target.startswith(OUTSIDE):
            continue
        file, _, anchor = target.partition("#")
        path = document.parent / file if file else document
        assert path.exists(), f"{name_of(document)} links to {target}, which is not there"
        if anchor:
            assert anchor in anchors_of(path), f"{name_of(document)} links to {target}: no such heading"


@pytest.mark.slow
def test_the_documentation_builds_without_warnings() -> None:
    """Builds all of it where `make docs` has it, which then finds nothing left to do."""
    target = ROOT / "docs" / "_build"
    build = [sys.executable, "-m", "sphinx", "--fail-on-warning", "--quiet", "--fresh-env", "--write-all"]
    done = subprocess.run([*build, str(ROOT / "docs"), str(target)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert (target / "index.html").is_file()


def test_results_are_shown_as_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "docs" / "_ext")
    generated = importlib.import_module("generated")
    monkeypatch.setattr(generated, "RESULTS", tmp_path)
    assert "No measurement" in generated.trace_read()
    times = {
        "presage_s": {"median": 0.5, "runs": [0.4, 0.5, 0.6]},
        "pandas_s": {"median": 1.0, "runs": [1, 1, 1.2]},
    }
    measured = {
        "version": "0.1.0",
        "date": "2024-03-04",
        "machine": {"cores": 2},
        "ricc": {"jobs": 447_794, "speedup_median": 2.0, **times},
        "stream": {
            "jobs": 10_000_000, "swf_bytes": 730_000_000, "convert_s": 12.34,
            "peak_rss_bytes": 2**30, "limit_bytes": 3 * 2**30,
        },
    }  # fmt: skip
    (tmp_path / "trace_read.json").write_text(json.dumps(measured))
    shown = generated.trace_read()
    assert "| speed-up | **2.00** | 2.50 | 2.00 |" in shown
    assert "took 12.3 s and at most 1.00 GiB of memory; the limit is 3 GiB" in shown


def test_synthetic_traces_are_judged_as_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "docs" / "_ext")
    generated = importlib.import_module("generated")
    monkeypatch.setattr(generated.synthesizer_tables, "CELLS", tmp_path)
    assert "No measurement" in generated.synthesizer_results("goals")
    store_cell(tmp_path / "SDSC-BLUE" / "sequence" / "1.json", ks=0.05, auc=0.7, slowdown=20.0)
    store_cell(tmp_path / "SDSC-BLUE" / "sequence" / "2.json", ks=0.09, auc=0.8, slowdown=40.0)
    store_cell(tmp_path / "SDSC-BLUE" / "tvae" / "1.json", ks=0.2, auc=0.95, slowdown=9.0)
    columns = generated.synthesizer_results("families", "columns")
    assert "| later jobs |  | 0.080 | 0.300 | – | – | 0.90 | 0.7% | – |" in columns
    assert "| `sequence` | 2 | 0.070 ± 0.028 | 0.025 | – | – | 0.75 ± 0.07 | 0.0% | – |" in columns
    assert "| `tvae` | 1 | 0.200 | 0.025 | – | – | 0.95 | 0.0% | – |" in columns
    replay = generated.synthesizer_results("logs", "replay")
    assert "| **SDSC-BLUE**: the log |  | 16.0 (11.0 to 21.0) | – | – | – |" in replay
    goals = generated.synthesizer_results("goals")
    assert "| KS ≤ 0.06 | 0.070 ± 0.028: **missed** (reached in 1 of 2 seeds) |" in goals
    assert "| … and below every row model's | 0.750 ± 0.071 (best 0.950): reached |" in goals
    assert "| bounded slowdown, FCFS, in the log's band | 30.0 ± 14.1 (11.0 to 21.0): **missed** (" in goals
    assert "| jobs/s on one core ≥ 3,000 | 2,000: **missed** |" in goals
    # Of the musts, KS, limits, both areas, one kind of copies and the speed were measured; copies are as natural.
    assert "| **musts reached** | 4 of 6 |" in goals
    store_cell(tmp_path / "SDSC-BLUE" / "shuffled" / "1.json", ks=0.0, auc=0.93, slowdown=9.0)
    shuffled = generated.synthesizer_results("shuffled")
    assert "| told from the log by what came before (AUC) | – | 0.93 | 0.90 |" in shuffled
    store_cell(tmp_path / "SDSC-BLUE" / "private-tvae" / "1.json", ks=0.3, auc=0.99, slowdown=9.0)
    private = generated.synthesizer_results("private", "private")
    assert "| `tvae` | 1 | 0.200 |" in private
    assert "| `tvae`, private | 1 | 0.300 |" in private
    assert "| `sequence`, private | 0 | – |" in private


def store_cell(path: Path, *, ks: float, auc: float, slowdown: float) -> None:
    """Write what the benchmark measures of a trace, as far as this log would tell."""
    windows = {"real_windows": [11.0, 16.0, 21.0], "low": 11.0, "high": 21.0}
    outcome = {"policy": "fcfs+easy", "metric": "mean_bounded_slowdown", "synthetic": slowdown, **windows}
    cell = {
        "marginals": {"mean_ks": ks, "mean_tv": 0.01, "mean_tv_by_label": 0.025},
        "sequence_auc": auc,
        "jobs_per_s": 2000.0,
        "constraints": {"real": {"over_limit": 0.003}, "synthetic": {"over_limit": 0.0}},
        "natural": {
            "marginals": {"mean_ks": 0.08, "mean_tv": 0.3, "mean_tv_by_label": None},
            "sequence_auc": 0.9,
            "constraints": {"synthetic": {"over_limit": 0.0066}},
        },
        "usefulness": {"not_measured": "not measured: too few jobs"},
        "replay": {"outcomes": [outcome]},
        "memorisation": {"synthetic": {"rows": 0.2}, "natural": {"rows": 0.2}},
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(cell))


@pytest.mark.parametrize(
    ("block", "problem"),
    [
        ("```console\n$ exit 4\n```", "exited 4"),
        ("```console\n$ true  # exits 3\n```", "exited 0"),
        ("```console\n$ echo one\ntwo\n```", "printed"),
        ("```console\n$ cat <<END\nsome\nEND\nother\n```", "printed"),
        ("```console\nno command\n```", "starts with a command"),
        ("```console\n$ make nothing\n```", "no usable target"),
        ("```python\nprint(1)\n```\n```text\n2\n```", "printed was"),
        ("```text\nsome words\n```", "output of the Python block"),
        ("```ruby\nputs 1\n```", "no way to run"),
        ("```\nputs 1\n```", "no way to run"),
        ("Text:\n\n    indented\n", "no way to run"),
    ],
)
def test_what_is_wrong_in_a_document_is_found(block: str, problem: str, tmp_path: Path) -> None:
    document = tmp_path / "page.md"
    document.write_text(block)
    with pytest.raises(AssertionError, match=problem):
        run_document(document, tmp_path)


@pytest.mark.parametrize(
    ("block", "problem"),
    [
        ("```console\n$ presage policies nothing\n```", "exited 2"),
        ("```console\n$ presage --version  # exits 3\n```", "exited 0"),
        ("```console\n$ presage --version\nother\n```", "printed\npresage"),
        ("```console\n$ presage --version > told.txt\npresage\n```", "printed\n"),
    ],
)
def test_what_is_wrong_is_found_without_a_start_too(
    block: str, problem: str, tmp_path: Path, warm: WarmCommands
) -> None:
    document = tmp_path / "page.md"
    document.write_text(block)
    with pytest.raises(AssertionError, match=problem):
        run_document(document, tmp_path, warm)
    assert not (told := tmp_path / "told.txt").exists() or told.read_text().startswith("presage ")


def test_blocks_that_lack_a_module_are_left_out_with_their_output(tmp_path: Path) -> None:
    document = tmp_path / "page.md"
    document.write_text(
        "```python no_such_module\nprint(1 / 0)\n```\n\n```text\n2\n```\n\n```python json\nx = 1\n```\n"
    )
    run_document(document, tmp_path)


def test_dots_stand_for_what_may_differ() -> None:
    assert matches("took ... s\n...\nend", "took 0.3 s\n\nmuch more\nend\n")
    assert not matches("took ... s\nend", "took 0.3 s\nmore\nend\n")


def links_of(document: Path) -> list[str]:
    tokens = [
        child
        for token in MarkdownIt().parse(document.read_text())
        for child in token.children or []
        if child.attrs
    ]
    return [str(value) for token in tokens for name in ("href", "src") if (value := token.attrGet(name))]


def anchors_of(document: Path) -> set[str]:
    """Return the names that GitHub and MyST give to headings."""
    tokens = MarkdownIt().parse(document.read_text())
    headings = [tokens[i + 1].content for i, token in enumerate(tokens) if token.type == "heading_open"]
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
