"""Everything that can be said about how true a synthetic trace is."""

from __future__ import annotations

import time
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from presage.errors import InputError, MissingDependencyError
from presage.synthesizers.fidelity._figures import Figures, Unmeasured
from presage.synthesizers.fidelity._jobs import job_frame, people_are_comparable, with_common_people
from presage.synthesizers.fidelity.constraints import Constraints, count_violations
from presage.synthesizers.fidelity.correlations import Correlations, compare_correlations
from presage.synthesizers.fidelity.marginals import Marginals, compare_marginals
from presage.synthesizers.fidelity.memorisation import Memorisation, measure_memorisation
from presage.synthesizers.fidelity.replay import Replay, check_load, replay_alike
from presage.synthesizers.fidelity.temporal import Rhythms, compare_rhythms
from presage.synthesizers.fidelity.two_sample import TwoSample, tell_apart
from presage.synthesizers.fidelity.usefulness import Usefulness, measure_usefulness

if TYPE_CHECKING:
    from collections.abc import Callable

    from presage.traces import Trace

NO_LATER = "not known: no later jobs of the log were given"


@dataclass(frozen=True)
class Likeness:
    """How like the log another trace is."""

    marginals: Marginals | Unmeasured
    correlations: Correlations | Unmeasured
    rows: TwoSample | Unmeasured
    """A classifier that sees single jobs."""
    sequences: TwoSample | Unmeasured
    """A classifier that also sees what came before."""
    rhythms: Rhythms | Unmeasured
    constraints: Constraints | Unmeasured

    def as_dict(self) -> dict[str, Any]:
        """Return all sections for JSON."""
        return {each.name: getattr(self, each.name).as_dict() for each in fields(self)}


@dataclass(frozen=True)
class Report:
    """How true a synthetic trace is; a section that could not be measured says why."""

    real: str
    """The name of the log."""
    synthetic: str
    real_jobs: int
    synthetic_jobs: int
    seed: int
    likeness: Likeness
    natural: Likeness | Unmeasured
    """The log's own later jobs in place of the synthetic ones: as alike as months of one machine are."""
    usefulness: Usefulness | Unmeasured
    replay: Replay | Unmeasured
    memorisation: Memorisation | Unmeasured
    seconds: dict[str, float]
    """CPU seconds that each section took."""

    def as_dict(self) -> dict[str, Any]:
        """Return everything for JSON."""
        parts = {each.name: getattr(self, each.name) for each in fields(self)}
        return {
            name: part.as_dict() if isinstance(part, Figures | Unmeasured | Likeness) else part
            for name, part in parts.items()
        }


def report(
    real: Trace,
    synthetic: Trace,
    later: Trace | None = None,
    *,
    seed: int = 0,
    load: float | None = None,
    progress: Callable[[int, int, str], None] | None = None,
) -> Report:
    """Return how true `synthetic` is to `real`, the log that it was learned from.

    `later` are jobs of the same machine after those of `real`, which say how alike two stretches of one log are.
    The replay is at `load` (default: the log's own). `progress` is told how many of how many sections are done,
    and which comes next. Raises InputError if a trace has no jobs with times at all, UsageError for a load that
    cannot be.
    """
    check_load(load)
    for trace in (real, synthetic, *([] if later is None else [later])):
        job_frame(trace)
    names = [trace.manifest.name for trace in (real, synthetic)]
    real, synthetic, later = with_common_people(real, synthetic, later)
    measures = _likeness_measures(real, synthetic, seed)
    natural = {} if later is None else _likeness_measures(real, later, seed)
    rest: dict[str, Callable[[], Any]] = {
        "usefulness": lambda: measure_usefulness(real, synthetic, later, seed=seed),
        "replay": lambda: replay_alike(real, synthetic, later, load=load),
        "memorisation": lambda: measure_memorisation(
            real, synthetic, later, same_people=people_are_comparable(real, synthetic), seed=seed
        ),
    }
    everything = {**measures, **{f"natural {name}": each for name, each in natural.items()}, **rest}
    found, seconds = _measure_all(everything, progress)
    return Report(
        real=names[0],
        synthetic=names[1],
        real_jobs=len(real),
        synthetic_jobs=len(synthetic),
        seed=seed,
        likeness=Likeness(**{name: found[name] for name in measures}),
        natural=Likeness(**{name: found[f"natural {name}"] for name in natural})
        if natural
        else Unmeasured(NO_LATER),
        **{name: found[name] for name in rest},
        seconds=seconds,
    )


def _likeness_measures(real: Trace, other: Trace, seed: int) -> dict[str, Callable[[], Any]]:
    same_people = people_are_comparable(real, other)
    return {
        "marginals": lambda: compare_marginals(real, other, same_people=same_people),
        "correlations": lambda: compare_correlations(real, other),
        "rows": lambda: tell_apart(real, other, seed=seed),
        "sequences": lambda: tell_apart(real, other, sequences=True, seed=seed),
        "rhythms": lambda: compare_rhythms(real, other),
        "constraints": lambda: count_violations(real, other),
    }


def _measure_all(
    measures: dict[str, Callable[[], Any]], progress: Callable[[int, int, str], None] | None
) -> tuple[dict[str, Any], dict[str, float]]:
    found, seconds = {}, {}
    for done, (name, measure) in enumerate(measures.items()):
        if progress is not None:
            progress(done, len(measures), name)
        begin = time.process_time()
        try:
            found[name] = measure()
        except MissingDependencyError as error:
            found[name] = Unmeasured(f"not measured: {error}")
        except InputError as error:
            found[name] = Unmeasured(f"not measured: {error.problem}")
        seconds[name] = round(time.process_time() - begin, 2)
    if progress is not None:
        progress(len(measures), len(measures), "done")
    return found, seconds
