"""Runs the long experiments as resumable cells: a cell whose result is there already is left alone.

Each cell is a benchmark that writes one JSON file to docs/results/data, from which the tables of the
documentation are made. Interrupting is safe: the next run goes on with the first cell that has no result.

    python benchmarks/prove.py            # run what is missing
    python benchmarks/prove.py --list     # say what there is
    python benchmarks/prove.py --again trace_read
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
RESULTS = HERE.parent / "docs" / "results" / "data"


@dataclass(frozen=True)
class Cell:
    """One experiment: a script, its arguments, and the CPU minutes it may take on two cores."""

    name: str
    arguments: tuple[str, ...]
    budget_min: float

    @property
    def result(self) -> Path:
        """Where its JSON goes."""
        return RESULTS / f"{self.name}.json"

    def command(self, out: Path) -> list[str]:
        """Return the call that runs it, and writes its JSON to a file."""
        script, *options = self.arguments
        return [str(HERE / script), *options, "--out", str(out)]


CELLS = (
    Cell("trace_read", ("trace_read.py",), budget_min=5),
    Cell("simulate", ("simulate.py",), budget_min=3),
    Cell("placed", ("placed.py",), budget_min=60),
    Cell("slurm", ("slurm.py",), budget_min=5),
    Cell("environments", ("environments.py",), budget_min=1),
    Cell("rlscheduler", ("rlscheduler.py", "--train"), budget_min=12),
    Cell("foundation", ("foundation.py",), budget_min=400),
    Cell("policies", ("policies.py",), budget_min=90),
    Cell("learning_curves", ("learning_curves.py",), budget_min=25),
    Cell("train_on_synthetic", ("train_on_synthetic.py",), budget_min=40),
    Cell("foundation_speed", ("foundation_speed.py",), budget_min=2),
    Cell("foundation_whatif", ("foundation_whatif.py",), budget_min=2),
    Cell("load_forecast", ("load_forecast.py",), budget_min=8),
    Cell("anomalies", ("anomalies.py",), budget_min=5),
    Cell("synthesizers", ("synthesizers.py",), budget_min=150),
    Cell("perturbed_queues", ("perturbed_queues.py",), budget_min=5),
    Cell("estimators", ("estimators.py",), budget_min=30),
    Cell("plane", ("plane.py",), budget_min=25),
)


def main() -> None:
    """Run the cells that have no result yet, and those asked for again."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true", help="say which cells there are and which have results")
    parser.add_argument("--again", action="append", default=[], choices=[cell.name for cell in CELLS])
    arguments = parser.parse_args()
    RESULTS.mkdir(parents=True, exist_ok=True)
    for cell in CELLS:
        done = cell.result.is_file() and cell.name not in arguments.again
        if arguments.list or done:
            print(f"{cell.name}: {'done' if done else f'about {cell.budget_min:g} CPU minutes'}", file=sys.stderr)
        else:
            run(cell)


def run(cell: Cell) -> None:
    """Run one cell; its result appears only when it is complete."""
    print(f"{cell.name}: running, about {cell.budget_min:g} CPU minutes", file=sys.stderr)
    partial = cell.result.with_suffix(".partial")
    begin = time.monotonic()
    subprocess.run([sys.executable, *cell.command(partial)], check=True, stdout=subprocess.DEVNULL)
    partial.replace(cell.result)
    print(f"{cell.name}: {(time.monotonic() - begin) / 60:.1f} min, {cell.result.name}", file=sys.stderr)


if __name__ == "__main__":
    main()
