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


def test_help_answers_within_half_a_second_of_cpu_time() -> None:
    code = (
        "import resource, subprocess, sys;"
        "subprocess.run([sys.executable, '-c', 'import presage.cli.main as m; m.run()', '--help'],"
        " check=True, stdout=subprocess.DEVNULL);"
        "used = resource.getrusage(resource.RUSAGE_CHILDREN); print(used.ru_utime + used.ru_stime)"
    )
    assert min(float(run_python(code)) for _ in range(3)) < 0.5


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
