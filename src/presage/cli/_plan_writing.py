"""Plans as files: JSON, batch scripts, Kubernetes Jobs."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from presage.errors import UsageError

if TYPE_CHECKING:
    from presage.clusters.systems import Scheduler
    from presage.planner.plan import Plan

_SCRIPTS = (".sbatch", ".sh")
_MANIFESTS = (".yaml", ".yml")


def check_places(files: list[str]) -> None:
    """Raise UsageError or OutputError for a place where no plan can be written, before anything is estimated."""
    from presage.traces.files import check_place

    for file in files:
        if Path(file).suffix not in (".json", *_SCRIPTS, *_MANIFESTS):
            raise UsageError(
                f"--write {file!r} does not say what to write",
                expected="a name that ends in .json, .sbatch or .yaml",
            )
        check_place(Path(file))


def write_plan(plan: Plan, file: str, image: str, claim: str) -> list[str]:
    """Write the plan in the form that the name says and return the names of the files."""
    path = Path(file)
    if path.suffix in _SCRIPTS:
        return _write_scripts(plan, path)
    if path.suffix in _MANIFESTS:
        return _write_manifests(plan, path, image, claim)
    _write(plan.as_json(), path)
    return [file]


def _write(text: str, place: Path) -> None:
    from presage.traces.files import replacing

    with replacing(place) as partial:
        partial.write_text(text, encoding="utf-8")


def how_to_submit(written: list[str]) -> str:
    """Return the commands for the scripts among the files; empty if there are none."""
    return "; ".join(f"sbatch {shlex.quote(file)}" for file in written if Path(file).suffix in _SCRIPTS)


def _write_scripts(plan: Plan, path: Path) -> list[str]:
    """Write a script for each place, which submits its successors there itself."""
    from presage.clusters.systems import Scheduler
    from presage.planner.scripts import stretches, write_sbatch

    _check_scheduler(plan, Scheduler.SLURM, path)
    if len({leg.system for leg in plan.legs}) > 1:
        raise UsageError(
            "The plan moves from one system to another, which no script can do by itself",
            remedy="Write a .json plan for `presage submit`, or choose with --only or --strategy",
        )
    parts = stretches(plan)
    places = [path if len(parts) == 1 else path.with_stem(f"{path.stem}-{n}") for n in range(1, len(parts) + 1)]
    texts = [
        write_sbatch(plan, legs[0], chain_as=str(place.resolve()) if len(legs) > 1 else "")
        for place, legs in zip(places, parts, strict=True)
    ]
    for place, text in zip(places, texts, strict=True):
        _write(text, place)
    return [str(place) for place in places]


def _write_manifests(plan: Plan, path: Path, image: str, claim: str) -> list[str]:
    from presage.clusters.systems import Scheduler
    from presage.planner.manifests import write_job

    _check_scheduler(plan, Scheduler.KUBERNETES, path)
    _write("".join(write_job(plan, leg, image=image, claim=claim) for leg in plan.legs), path)
    return [str(path)]


def _check_scheduler(plan: Plan, wanted: Scheduler, path: Path) -> None:
    for leg in plan.legs:
        if leg.scheduler is not wanted:
            raise UsageError(
                f"{path.name} would be for {wanted.value}, but the plan goes to {leg.place}, where "
                f"{leg.scheduler.value} starts jobs",
                remedy="Write a .json plan, or choose with --only or --strategy",
            )
