from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from importlib.metadata import requires
from pathlib import Path

import presage

ROOT = Path(__file__).parents[1]


def run_python(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout


def test_importing_the_package_loads_nothing_heavy() -> None:
    loaded = run_python("import sys, json, presage, presage.cli.main; print(json.dumps(sorted(sys.modules)))")
    heavy = {"torch", "polars", "numba", "numpy", "matplotlib", "pandas", "pydantic_settings"}
    assert heavy.isdisjoint(json.loads(loaded))


SMALLEST_APP = """
import typer
app = typer.Typer()
@app.command()
def first(number: int = 1) -> None:
    "Do one thing."
@app.command()
def second(number: int = 1) -> None:
    "Do another."
app()
"""


def cpu_s_of_help(code: str) -> float:
    """Return the CPU seconds of a Python program that is asked for its help."""
    watch = (
        "import resource, subprocess, sys;"
        "subprocess.run([sys.executable, '-c', sys.argv[1], '--help'], check=True, stdout=subprocess.DEVNULL);"
        "used = resource.getrusage(resource.RUSAGE_CHILDREN); print(used.ru_utime + used.ru_stime)"
    )
    done = subprocess.run([sys.executable, "-c", watch, code], check=True, capture_output=True, text=True)
    return float(done.stdout)


def test_help_answers_almost_as_fast_as_that_of_the_smallest_program() -> None:
    """A quarter of a second against an eighth: a ratio, because machines and what else they do differ."""
    ours = "import presage.cli.main as m; m.run()"
    ratios = [cpu_s_of_help(ours) / cpu_s_of_help(SMALLEST_APP) for _ in range(3)]
    assert min(ratios) < 4


def test_public_names_are_those_documented() -> None:
    assert presage.__all__ == sorted(presage.__all__)
    assert all(getattr(presage, name) for name in presage.__all__)
    assert dir(presage) == presage.__all__


def test_the_base_install_has_no_heavy_requirement() -> None:
    base = [line for line in requires("presage") or [] if "extra ==" not in line]
    names = {line.split(">")[0].split("=")[0].strip() for line in base}
    assert names == {
        "alembic", "httpx", "numpy", "polars", "pydantic", "pydantic-settings", "rich", "safetensors",
        "sqlalchemy", "threadpoolctl", "tomli-w", "typer", "tzdata", "zstandard",
    }  # fmt: skip


def test_it_runs_as_a_module() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "presage", "--version"], check=True, capture_output=True, text=True
    )
    assert done.stdout == f"presage {presage.__version__}\n"


def test_the_source_archive_has_what_its_readme_names() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    included = project["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
    assert {"README.md", "CONTRIBUTING.md", "CHANGELOG.md", "LICENSE", "Makefile", "constraints.txt"} <= set(
        included
    )
    assert all((ROOT / name).exists() for name in included)


def test_ci_runs_the_commands_that_the_readme_names() -> None:
    ci = (ROOT / ".ci" / "run").read_text()
    assert "make run" in ci
    assert "make test" in ci
