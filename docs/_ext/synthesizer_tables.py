"""Tables about synthetic traces, made from the cells of `benchmarks/synthesizers.py` and `perturbed_queues.py`."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from pathlib import Path
from statistics import mean, median, stdev
from typing import Any

DATA = Path(__file__).resolve().parents[1] / "results" / "data"
CELLS, PERTURBED = DATA / "synthesizers", DATA / "perturbed-queues"
FLAGSHIP = "sequence"
ROW_MODELS = ("lublin", "copula", "tvae", "ctgan", "copula-gan", "row-transformer", "diffusion")
PRIVATE = ("sequence", "tvae", "row-transformer")
"""Kinds that were also measured under a promise of privacy, in cells of their own."""
SHARES = {"no-copies": "0", "common-copies": "1"}
"""Cells of other traces of the flagship → what was said of copies when they were drawn."""
QUEUES, SEVERAL, LOADS = "queues", "several", "loads"
SEVERAL_FIGURES = {"mean_ks": ("marginals", "mean_ks"), "pearson_difference": ("pearson_difference",)}
"""Of several traces → where that of the first one stands."""
AWAY = {"ac1": "ac1", "same_user": "same user", "repeated": "repeated"}
SHUFFLED = "shuffled"
FIRST = "SDSC-BLUE"
"""The log on which all families are measured."""
LOGS = (FIRST, "HPC2N", "CTC-SP2", "RICC", "Theta", "openb")
REPLAYS = tuple(
    (policy, title, metric, words, form)
    for policy, title in {"fcfs+easy": "FCFS", "sjf+easy": "SJF"}.items()
    for metric, words, form in (
        ("mean_bounded_slowdown", "bounded slowdown", ".1f"), ("mean_wait_s", "mean wait, s", ",.0f"),
    )
)  # fmt: skip
COPIES = {"rows": "copies of jobs", "rows_and_gap": "… with their gaps", "sequences": "copies of four jobs"}
CHANGES = {
    "nothing": "nothing",
    "order-six-hours": "order of a user's jobs within six hours",
    "order-day": "order of a user's jobs within a day",
    "times-six-hours": "times of arrival within six hours",
    "factor-0.3": "a factor for all run times of a user in six hours (log-normal, sigma 0.3)",
    "factor-0.6": "… with 0.6",
    "run-times-six-hours": "which job of a user has which run time, within six hours",
}
"""What was drawn at random in a log."""
NONE = "No measurement is stored here yet. `make prove` makes one."
NOTHING = "–"

Cell = dict[str, Any]
Number = Callable[[Cell], float | None]
Rows = list[tuple[str, ...]]


def unknown(_: Cell) -> None:
    """Return that nothing is known."""


def at(*keys: str) -> Number:
    """Return what finds a number in a cell; None where it was not measured."""

    def find(cell: Cell) -> Any:
        value: Any = cell
        for key in keys:
            value = value.get(key) if isinstance(value, dict) else None
        return value

    return find


def run_error(cell: Cell) -> float | None:
    """Return the error of run times learned from a trace over the log's, or its mean over traces."""
    ratios = cell.get("run_ratios")
    found: float | None = mean(ratios) if ratios else at("usefulness", "run", "ratio")(cell)
    return found


def over_traces(key: str, *first: str) -> Number:
    """Return the mean of a figure over several traces of a network; of the one trace there is where it has one."""

    def find(cell: Cell) -> float | None:
        traces = at(SEVERAL, key)(cell)
        return mean(traces) if traces else at(*first)(cell)

    return find


def away(key: str) -> Number:
    """Return how far a number of the rhythm is from the log's, as the mean over several traces of a network."""

    def find(cell: Cell) -> float | None:
        own, real = at("rhythms", "synthetic", key)(cell), at("rhythms", "real", key)(cell)
        if own is None or real is None:
            return None
        return mean(abs(each - real) for each in cell.get(SEVERAL, {}).get(key, [own]))

    return find


def always(number: float) -> Number:
    """Return what is the same for all cells."""
    return lambda _: number


@dataclass(frozen=True)
class Figure:
    """A column: the number of a synthetic trace, of the log, and of the log's later jobs."""

    title: str
    form: str
    synthetic: Number
    log: Number = unknown
    later: Number = unknown


def _alike(title: str, form: str, *keys: str) -> Figure:
    """Return a distance from the log, which later jobs have too."""
    return Figure(title, form, at(*keys), later=at("natural", *keys))


def _sided(title: str, form: str, section: str, key: str) -> Figure:
    """Return a number that every trace has."""
    sides = at(section, "synthetic", key), at(section, "real", key), at("natural", section, "synthetic", key)
    return Figure(title, form, *sides)


def total_variation(cell: Cell) -> float | None:
    """Return the mean total variation of labels, people by name where names can be compared."""
    by_label = at("marginals", "mean_tv_by_label")(cell)
    return at("marginals", "mean_tv")(cell) if by_label is None else by_label


def replayed(policy: str, metric: str, part: str = "synthetic") -> Callable[[Cell], Any]:
    """Return what finds one part of a metric of the replay; None where the log could not be replayed."""

    def find(cell: Cell) -> Any:
        outcomes = cell.get("replay", {}).get("outcomes", ())
        return next(
            (each[part] for each in outcomes if (each["policy"], each["metric"]) == (policy, metric)), None
        )

    return find


FIGURES = {
    "columns": (
        _alike("KS", ".3f", "marginals", "mean_ks"),
        Figure("TV", ".3f", total_variation, later=lambda cell: total_variation(cell["natural"])),
        _alike("Pearson difference", ".3f", "pearson_difference"),
        _alike("AUC of single jobs", ".2f", "row_auc"),
        _alike("AUC with what came before", ".2f", "sequence_auc"),
        _sided("run > limit", ".1%", "constraints", "over_limit"),
        _sided("unseen sizes", ".1%", "constraints", "new_sizes"),
    ),
    "time": (
        _sided("ac1", ".2f", "rhythms", "ac1"),
        _sided("ac24", ".2f", "rhythms", "ac24"),
        _sided("same user", ".3f", "rhythms", "same_user"),
        _sided("repeated", ".3f", "rhythms", "repeated"),
    ),
    "use": (
        Figure("run times, error / log's", ".2f", run_error),
        Figure("waits, error / log's", ".2f", at("usefulness", "wait", "ratio")),
        *(
            Figure(words, ".1%", at("memorisation", "synthetic", key), later=at("memorisation", "natural", key))
            for key, words in COPIES.items()
        ),
        Figure("training, CPU s", ",.0f", at("train_cpu_s")),
        Figure("jobs/s", ",.0f", at("jobs_per_s")),
    ),
    "replay": tuple(
        Figure(f"{words}, {title}", form, replayed(policy, metric))
        for policy, title, metric, words, form in REPLAYS
    ),
}


FIGURES["private"] = (
    *FIGURES["columns"][:1], *FIGURES["columns"][2:5], *FIGURES["time"], FIGURES["use"][0],
    *(each for each in FIGURES["use"] if each.title in (COPIES["rows"], COPIES["sequences"])),
    next(each for each in FIGURES["use"] if each.title.startswith("training")),
)  # fmt: skip
FIGURES["copies"] = (
    *(each for each in FIGURES["use"] if each.title in COPIES.values()),
    FIGURES["columns"][0], *FIGURES["columns"][2:5], FIGURES["use"][0],
)  # fmt: skip


def measured() -> bool:
    """Return whether there is any cell."""
    return any(CELLS.glob("*/*/*.json"))


def head(part: str) -> tuple[str, ...]:
    """Return the names of the columns of a part."""
    return ("", "seeds", *(each.title for each in FIGURES[part]))


def family_rows(part: str) -> Rows:
    """Return every family on the first log, below the log itself, its later jobs and its shuffled rows."""
    rows = _log_itself(part, cells_of(FIRST, FLAGSHIP))
    for family in (SHUFFLED, FLAGSHIP, *ROW_MODELS):
        if known := cells_of(FIRST, family):
            rows.append(_row(part, "the log, shuffled" if family == SHUFFLED else f"`{family}`", known))
    return rows


def private_rows(part: str) -> Rows:
    """Return kinds under a promise on the first log, each below itself without one."""
    rows = _log_itself(part, cells_of(FIRST, FLAGSHIP))
    for family in PRIVATE:
        rows.append(_row(part, f"`{family}`", cells_of(FIRST, family)))
        rows.append(_row(part, f"`{family}`, private", cells_of(FIRST, f"private-{family}")))
    return rows


def log_rows(part: str) -> Rows:
    """Return the flagship on every log, below the log itself and its later jobs."""
    rows: Rows = []
    for log in LOGS:
        known = cells_of(log, FLAGSHIP)
        own = _row(part, f"`{FLAGSHIP}`", known)
        if set(own[2:]) != {NOTHING}:
            (first, *rest), *others = [*_log_itself(part, known), own]
            rows += [(f"**{log}**: {first}", *rest), *others]
    return rows


def copies_rows(part: str) -> Rows:
    """Return the flagship on every log, as it is and with other shares of copies, below later jobs."""
    rows: Rows = []
    for log in LOGS:
        known = cells_of(log, FLAGSHIP)
        others = {words: found for cell, words in SHARES.items() if (found := cells_of(log, cell))}
        if others:
            (_, *later) = _log_itself(part, known)[-1]
            rows.append((f"**{log}**: later jobs", *later))
            rows.append(_row(part, f"`{FLAGSHIP}`", known))
            rows += [_row(part, f"… with `--copies {words}`", found) for words, found in others.items()]
    return rows


def rival_head() -> tuple[str, ...]:
    """Return the names of the columns of `rival_rows`."""
    return (
        "AUC with what came before",
        "later jobs",
        f"`{FLAGSHIP}`",
        "the log, shuffled",
        *map("`{}`".format, ROW_MODELS),
    )


def rival_rows() -> Rows:
    """Return how well what each family draws is told from each log by what came before."""
    own, later = at("sequence_auc"), at("natural", "sequence_auc")
    rows: Rows = []
    for log in LOGS:
        if known := cells_of(log, FLAGSHIP):
            families = [[own(cell) for cell in cells_of(log, each)] for each in (FLAGSHIP, SHUFFLED, *ROW_MODELS)]
            rows.append((log, *(told(each, ".2f") for each in ([later(cell) for cell in known], *families))))
    return rows


def shuffled_head() -> tuple[str, ...]:
    """Return the names of the columns of `shuffled_rows`."""
    return ("", "log", "its jobs, shuffled", "its next jobs")


def shuffled_rows() -> Rows:
    """Return what is lost of the first log where its jobs come in any order: one figure in each row."""
    known = cells_of(FIRST, SHUFFLED)
    figures = {
        "told from the log by single jobs (AUC)": _alike("", ".2f", "row_auc"),
        "told from the log by what came before (AUC)": _alike("", ".2f", "sequence_auc"),
        "job has the user of the job before": _sided("", ".1%", "rhythms", "same_user"),
        "… and its size and limit": _sided("", ".1%", "rhythms", "repeated"),
        "error of run times learned from it (log MAE)": Figure(
            "", ".2f", at("usefulness", "run", "synthetic_mae"), at("usefulness", "run", "real_mae")
        ),
    }
    return [
        (
            words,
            *(told([find(cell) for cell in known], each.form) for find in (each.log, each.synthetic, each.later)),
        )
        for words, each in figures.items()
    ]


def trace_head() -> tuple[str, ...]:
    """Return the names of the columns of `trace_rows`."""
    return (
        "run times, error / log's",
        *(f"seed {each}" for each in (1, 2, 3)),
        "all, with standard error",
        "first traces alone",
    )


def trace_rows() -> Rows:
    """Return what is learned from each of several traces of a network: how much the trace matters."""
    rows: Rows = []
    for log in LOGS:
        networks = [ratios for cell in cells_of(log, FLAGSHIP) if (ratios := cell.get("run_ratios"))]
        if len(networks) == len(trace_head()) - 3:
            every = [each for ratios in networks for each in ratios]
            means = [f"{mean(ratios):.3f}" for ratios in networks]
            rows.append((log, *means, _with_error(every, ".3f"), told([each[0] for each in networks], ".3f")))
    return rows


def several_head() -> tuple[str, ...]:
    """Return the names of the columns of `several_rows`."""
    return ("", "KS", "Pearson difference", *(f"{words}, away from the log's" for words in AWAY.values()), "ac24")


def several_rows() -> Rows:
    """Return means over several traces of each network, and their standard deviation over networks."""
    numbers = [
        *(over_traces(key, *first) for key, first in SEVERAL_FIGURES.items()),
        *(away(key) for key in AWAY),
        over_traces("ac24", "rhythms", "synthetic", "ac24"),
    ]
    known = {log: [cell for cell in cells_of(log, FLAGSHIP) if SEVERAL in cell] for log in LOGS}
    return [
        (log, *(told([number(cell) for cell in cells], ".3f") for number in numbers))
        for log, cells in known.items()
        if cells
    ]


def queue_head() -> tuple[str, ...]:
    """Return the names of the columns of `queue_rows`."""
    return ("", *(f"{words}, {title}" for _, title, _, words, _ in REPLAYS))


def queue_rows() -> Rows:
    """Return how several traces of each network queue, below the log's windows."""
    rows: Rows = []
    for log in LOGS:
        if networks := cells_of(log, QUEUES):
            flagship = cells_of(log, FLAGSHIP)
            rows.append((f"**{log}**", *(_band(flagship, each[0], each[2], each[4]) for each in REPLAYS)))
            rows.append((
                f"`{FLAGSHIP}`",
                *(
                    _with_error([value for each in networks for value in each[f"{policy} {metric}"]], form)
                    for policy, _, metric, _, form in REPLAYS
                ),
            ))  # fmt: skip
    return rows


def load_head() -> tuple[str, ...]:
    """Return the names of the columns of `load_rows`."""
    fcfs = (f"{words}, {title}" for policy, title, _, words, _ in REPLAYS if policy == "fcfs+easy")
    return ("log", "load asked for", "ac1", "ac24", *fcfs)


def load_rows() -> Rows:
    """Return what becomes of traces that are asked for at another load; all are replayed at the same one."""
    forms = {"ac1": ".2f", "ac24": ".2f"}
    forms |= {f"{policy} {metric}": form for policy, _, metric, _, form in REPLAYS if policy == "fcfs+easy"}
    return [
        (
            log,
            load,
            *(told([mean(network[load][key]) for network in networks], form) for key, form in forms.items()),
        )
        for log in LOGS
        if (networks := cells_of(log, LOADS))
        for load in networks[0]
    ]


def _with_error(values: list[float], form: str) -> str:
    """Return the mean with its standard error, the median, the least and the greatest."""
    error = stdev(values) / len(values) ** 0.5
    return (
        f"{mean(values):{form}} ± {error:{form}}, median {median(values):{form}} "
        f"({min(values):{form}} to {max(values):{form}})"
    )


def perturbed_head() -> tuple[str, ...]:
    """Return the names of the columns of `perturbed_rows`."""
    return ("drawn at random in the log", *_perturbed_logs())


def perturbed_rows() -> Rows:
    """Return how logs queue with something about them drawn at random: mean bounded slowdowns of each draw."""
    return [
        (words, *(_slowdowns(PERTURBED / log / change) for log in _perturbed_logs()))
        for change, words in CHANGES.items()
    ]


def _perturbed_logs() -> list[str]:
    return [log for log in LOGS if (PERTURBED / log).is_dir()]


def _slowdowns(folder: Path) -> str:
    found = [json.loads(path.read_text())["mean_bounded_slowdown"] for path in sorted(folder.glob("*.json"))]
    return ", ".join(f"{each:.1f}" for each in found) or NOTHING


def cells_of(log: str, family: str) -> list[Cell]:
    """Return the cells of all seeds that are there, those of the flagship with what several of its traces have."""
    found = []
    for path in sorted((CELLS / log / family).glob("*.json")):
        several = CELLS / log / SEVERAL / path.name
        known = {SEVERAL: json.loads(several.read_text())} if family == FLAGSHIP and several.exists() else {}
        found.append({**json.loads(path.read_text()), **known})
    return found


def told(values: list[float | None], form: str) -> str:
    """Return the mean of what was measured, and the standard deviation over seeds where it shows."""
    known = [value for value in values if value is not None]
    if not known:
        return NOTHING
    spread = format(stdev(known) if len(known) > 1 else 0.0, form)
    return format(mean(known), form) + ("" if spread == format(0.0, form) else f" ± {spread}")


def _row(part: str, title: str, known: list[Cell]) -> tuple[str, ...]:
    columns = [told([each.synthetic(cell) for cell in known], each.form) for each in FIGURES[part]]
    return (title, str(len(known)), *columns)


def _log_itself(part: str, known: list[Cell]) -> Rows:
    """Return rows of the log and of its later jobs, or of the windows of both where they were replayed."""
    if part == "replay":
        rows = {"the log": [_band(known, policy, metric, form) for policy, _, metric, _, form in REPLAYS]}
    else:
        figures = FIGURES[part]
        rows = {
            "the log": [told([each.log(cell) for cell in known], each.form) for each in figures],
            "later jobs": [told([each.later(cell) for cell in known], each.form) for each in figures],
        }
    return [(side, "", *columns) for side, columns in rows.items() if set(columns) != {NOTHING}]


def _band(known: list[Cell], policy: str, metric: str, form: str) -> str:
    """Return the mean, the least and the greatest over the log's windows."""
    windows = next(filter(None, map(replayed(policy, metric, "real_windows"), known)), None)
    if windows is None:
        return NOTHING
    return f"{mean(windows):{form}} ({min(windows):{form}} to {max(windows):{form}})"


@dataclass(frozen=True)
class Goal:
    """What was asked for before anything was measured: a number, from `low` to `high`."""

    title: str
    form: str
    number: Number
    low: Number = lambda _: -inf
    high: Number = lambda _: inf
    must: bool = True
    beside: Callable[[Cell], str] = lambda _: ""
    """What the number has to be compared with, where that is another for each log."""

    def reached(self, known: list[Cell]) -> bool | None:
        """Return whether the mean over seeds is within; None where it was not measured."""
        bounds = [(self.low(cell), self.number(cell), self.high(cell)) for cell in known]
        measured = [each for each in bounds if None not in each]
        if not measured:
            return None
        low, number, high = (mean(values) for values in zip(*measured, strict=True))
        return low <= number <= high

    def told(self, known: list[Cell]) -> str:
        """Return the number and whether that is within, also of how many seeds where they disagree."""
        reached = self.reached(known)
        if reached is None:
            return NOTHING
        seeds = [self.reached([cell]) for cell in known]
        split = f" (reached in {seeds.count(True)} of {len(seeds)} seeds)" if len(set(seeds)) > 1 else ""
        number = told([self.number(cell) for cell in known], self.form)
        return f"{number}{self.beside(known[0])}: {'reached' if reached else '**missed**'}{split}"


def goals(log: str) -> list[Goal]:
    """Return what was asked of the flagship, with the numbers that were set beforehand for SDSC-BLUE."""
    ks, pearson = (over_traces(key, *first) for key, first in SEVERAL_FIGURES.items())
    before = at("sequence_auc")
    best = _best_row_model(log)
    return [
        Goal("KS ≤ 0.06", ".3f", ks, high=always(0.06)),
        Goal("Pearson difference ≤ 0.05", ".3f", pearson, high=always(0.05)),
        Goal("run > limit ≤ 0.5 %", ".1%", at("constraints", "synthetic", "over_limit"), high=always(0.005)),
        Goal("unseen sizes ≤ 0.5 %", ".1%", at("constraints", "synthetic", "new_sizes"), high=always(0.005)),
        _near("ac1", "ac1", 0.06),
        _near("same user", "same_user", 0.03),
        _near("repeated", "repeated", 0.03),
        Goal("run times, error ≤ 1.05 × the log's", ".3f", run_error, high=always(1.05)),
        Goal("AUC with what came before ≤ 0.85", ".3f", before, high=always(0.85)),
        Goal("… and below every row model's", ".3f", before, high=lambda _: best,
             beside=lambda _: _brackets("best", best, ".3f")),
        *(_no_more(key, words) for key, words in COPIES.items()),
        Goal("jobs/s on one core ≥ 3,000", ",.0f", at("jobs_per_s"), low=always(3000.0)),
        Goal("TV ≤ 0.10", ".3f", total_variation, high=always(0.1), must=False),
        Goal("ac24 ≥ 0.33", ".2f", at("rhythms", "synthetic", "ac24"), low=always(0.33), must=False,
             beside=lambda cell: _brackets("log", at("rhythms", "real", "ac24")(cell), ".2f")),
        Goal("AUC of single jobs ≤ 0.70", ".3f", at("row_auc"), high=always(0.7), must=False),
        Goal("AUC with what came before ≤ 0.75", ".3f", before, high=always(0.75), must=False),
        *(_inside(*each) for each in REPLAYS),
    ]  # fmt: skip


def goal_head() -> tuple[str, ...]:
    """Return the names of the columns of the goals."""
    return ("", *(log for log in LOGS if cells_of(log, FLAGSHIP)))


def goal_rows() -> Rows:
    """Return every goal with its number on every log, the musts first, and how many were reached."""
    known = {log: found for log in LOGS if (found := cells_of(log, FLAGSHIP))}
    asked = {log: goals(log) for log in known}
    rows: Rows = []
    for must, kind in ((True, "musts"), (False, "aims")):
        wanted = {log: [goal for goal in each if goal.must == must] for log, each in asked.items()}
        for same in zip(*wanted.values(), strict=True):
            rows.append((same[0].title, *(goal.told(known[log]) for log, goal in zip(known, same, strict=True))))
        rows.append((f"**{kind} reached**", *(_count(wanted[log], known[log]) for log in known)))
    return rows


def _near(words: str, key: str, most: float) -> Goal:
    """Return that a number of the rhythm is at most so far from the log's."""
    return Goal(f"{words}, away from the log's ≤ {most:.2f}", ".3f", away(key), high=always(most))


def _no_more(key: str, words: str) -> Goal:
    """Return that there are no more copies than among later jobs."""
    natural = at("memorisation", "natural", key)
    return Goal(
        f"{words} ≤ later jobs'", ".1%", at("memorisation", "synthetic", key), high=natural,
        beside=lambda cell: _brackets("later", natural(cell), ".1%"),
    )  # fmt: skip


def _inside(policy: str, title: str, metric: str, words: str, form: str) -> Goal:
    """Return that a metric of the replay is within the log's windows."""
    low, high = replayed(policy, metric, "low"), replayed(policy, metric, "high")
    return Goal(
        f"{words}, {title}, in the log's band", form, replayed(policy, metric), low, high, must=False,
        beside=lambda cell: f" ({low(cell):{form}} to {high(cell):{form}})",
    )  # fmt: skip


def _best_row_model(log: str) -> float | None:
    """Return the lowest AUC with what came before of all row models on a log; None where none was measured."""
    found = [cells_of(log, family) for family in ROW_MODELS]
    return min((mean(cell["sequence_auc"] for cell in known) for known in found if known), default=None)


def _brackets(whose: str, number: float | None, form: str) -> str:
    return "" if number is None else f" ({whose} {number:{form}})"


def _count(wanted: list[Goal], known: list[Cell]) -> str:
    verdicts = [goal.reached(known) for goal in wanted]
    return f"{verdicts.count(True)} of {len(verdicts) - verdicts.count(None)}"
