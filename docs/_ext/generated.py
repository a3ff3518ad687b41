"""The directive `generated`: parts of the reference that are made from the code, so that they cannot disagree.

    ```{generated} schema jobs
    ```

The first word names a function of `PARTS`, the others are its arguments. A function returns Markdown.
"""

from __future__ import annotations

import importlib
import inspect
import json
import re
import sys
from collections import Counter
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import estimator_tables
import foundation_tables
import learning_curve_tables
import plane_tables
import polars as pl
import policy_tables
import rlscheduler_tables
import synthesizer_tables
import train_on_synthetic_tables
import typer
from pydantic import BaseModel
from sphinx.pycode import ModuleAnalyzer
from sphinx.util.docutils import SphinxDirective

from presage import errors
from presage.cli.main import EXIT_INTERRUPTED, app
from presage.cli.trace import EXIT_FINDINGS
from presage.config import Settings
from presage.policies import BACKFILLINGS, CLUSTER_ORDERS, ORDERS, PLACED_BACKFILLINGS, PLACEMENTS
from presage.registry import Registry
from presage.simulator import detailed
from presage.simulator.semantics import SUMMARIES
from presage.synthesizers import PRIVATE_KINDS, SYNTHESIZERS
from presage.traces import schema
from presage.traces.cleaning import RULE_SETS, RULES
from presage.traces.manifest import HAS
from presage.traces.plots import FIGURES
from presage.traces.readers import READERS
from presage.traces.workloads import WORKLOADS, describe_parameters
from presage.traces.workloads._parameters import parameters_of
from presage.traces.writers import WRITERS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from docutils import nodes
    from sphinx.application import Sphinx

MODULES = (
    "presage.traces",
    "presage.traces.schema",
    "presage.traces.events",
    "presage.traces.readers",
    "presage.traces.writers",
    "presage.traces.cleaning",
    "presage.traces.validation",
    "presage.traces.statistics",
    "presage.traces.plots",
    "presage.traces.workloads",
    "presage.policies",
    "presage.simulator",
    "presage.simulator.detailed",
    "presage.environments",
    "presage.foundation",
    "presage.learning",
    "presage.foundation.baselines",
    "presage.foundation.load",
    "presage.foundation.anomalies",
    "presage.synthesizers",
    "presage.synthesizers.fidelity",
    "presage.clusters",
    "presage.connectors",
    "presage.estimators",
    "presage.estimators.repository",
    "presage.planner",
    "presage.client",
    "presage.helper",
    "presage.testing",
    "presage.registry",
    "presage.errors",
    "presage.config",
)
"""The public modules; a name that several of them have is described under the first."""

RESULTS = Path(__file__).parents[1] / "results" / "data"
_COLUMN = re.compile(r'^    +"(?P<name>\w+)": .*?,(?:  # (?P<meaning>.*))?$')
_COMMENT = re.compile(r"^    +# (?P<text>.*)$")


def schema_table(table: str) -> str:
    """Return the columns of a canonical table with the meanings that stand as comments in the schema."""
    source = inspect.getsource(schema)
    body = re.search(rf"^{table.upper()} = pl\.Schema\(\n(.*?)^\)$", source, re.DOTALL | re.MULTILINE)
    if body is None:
        raise ValueError(f"presage.traces.schema does not define {table.upper()}")
    groups: list[tuple[str, list[tuple[str, ...]]]] = [("", [])]
    for line in body[1].splitlines():
        if comment := _COMMENT.match(line):
            groups.append((comment["text"], []))
        elif column := _COLUMN.match(line):
            dtype = schema.TABLES[table][column["name"]]
            groups[-1][1].append((f"`{column['name']}`", _type_name(dtype), column["meaning"] or ""))
    named = [row[0].strip("`") for _, rows in groups for row in rows]
    if named != list(schema.TABLES[table]):
        raise ValueError(f"the columns of {table} cannot be told from its source")
    return "\n\n".join(
        "\n\n".join(part for part in (text, _table(("column", "type", "meaning"), rows)) if part)
        for text, rows in groups
        if rows
    )


def knowledge() -> str:
    """Return what a manifest's `has` can say."""
    return _table(("`has`", "true if some job has"), [(f"`{key}`", f"`{column}`") for key, column in HAS.items()])


def outcomes() -> str:
    """Return the outcomes in the order of the enum."""
    return ", ".join(f"`{outcome}`" for outcome in schema.Outcome)


def formats() -> str:
    """Return the tables of formats that are read and written."""
    return "\n\n".join(["Read:", _registry_table(READERS), "Written:", _registry_table(WRITERS)])


def readers() -> str:
    """Return a section for every reader, from the docstring of its module and class."""
    return "\n\n".join(_reader_sections())


def writers() -> str:
    """Return a section for every writer, from the docstring of its class, which says what the format loses."""
    sections = [
        (f"### `{spec.name}`", inspect.cleandoc(WRITERS.get(spec.name).__doc__)) for spec in WRITERS.specs()
    ]
    return "\n\n".join(part for section in sections for part in section)


def rules() -> str:
    """Return the cleaning rules and the sets that name them."""
    sets = [(f"`{name}`", ", ".join(f"`{rule}`" for rule in members)) for name, members in RULE_SETS.items()]
    return "\n\n".join(
        [_registry_table(RULES), "Rule sets, applied in this order:", _table(("set", "rules"), sets)]
    )


def figures() -> str:
    """Return the figures that can be drawn."""
    return _table(("figure", "shows"), [(f"`{name}`", title) for name, title in FIGURES.items()])


def models() -> str:
    """Return a section for every workload model with its parameters."""
    parts = []
    for spec in WORKLOADS.specs():
        rows = [
            (f"`{name}`", "" if known.default is None else f"`{known.default}`", known.help)
            for name, known in describe_parameters(spec.name).items()
        ]
        docstring = _module_docstring(spec.target)
        parts += [f"## `{spec.name}`", docstring, _table(("parameter", "default", "meaning"), rows)]
    return "\n\n".join(parts)


def synthesizers() -> str:
    """Return a section for every synthesizer that can be loaded here, and a line for every other."""
    parts = []
    loaded = SYNTHESIZERS.load_all()
    for spec in SYNTHESIZERS.specs():
        needs = f"Needs the extra `{spec.extra}`" if spec.extra else "Needs no extra"
        private = "can learn with differential privacy" if spec.name in PRIVATE_KINDS else "cannot promise privacy"
        parts += [f"## `{spec.name}`", f"{needs}; {private}."]
        if spec.name not in loaded:
            parts.append(f"{spec.summary}.")
            continue
        known = parameters_of(loaded[spec.name].settings_type)
        rows = [(f"`{name}`", f"`{each.default}`", each.help) for name, each in known.items()]
        parts += [_module_docstring(loaded[spec.name].__module__), _table(("setting", "default", "meaning"), rows)]
    return "\n\n".join(parts)


def settings() -> str:
    """Return every setting with its default, meaning and environment variable."""
    prefix, nest = Settings.model_config["env_prefix"], Settings.model_config["env_nested_delimiter"]
    rows = []
    for section, section_field in Settings.model_fields.items():
        section_model: Any = section_field.annotation
        for name, field in section_model.model_fields.items():
            variable = f"{prefix}{section}{nest}{name}".upper()
            default = "not set" if field.default is None else f"`{field.default}`"
            rows.append((f"`{section}.{name}`", default, field.description or "", f"`{variable}`"))
    return _table(("setting", "default", "meaning", "environment variable"), rows)


def exit_codes() -> str:
    """Return exit code → meaning, from the error tree and the two codes that are no errors."""
    meanings = {0: ["done"], 1: ["an internal error: please report it"]}
    for kind in (errors.UsageError, errors.InputError, errors.MissingDependencyError, errors.ConfigError):
        meanings.setdefault(kind.exit_code, []).append(_first_line(kind))
    meanings[errors.UsageError.exit_code].append(_first_line(errors.UnknownNameError))
    meanings[EXIT_FINDINGS] = ["`validate` ran and found problems"]
    meanings[errors.OutputError.exit_code] = [_first_line(errors.OutputError)]
    meanings[errors.ConnectorError.exit_code] = [_first_line(errors.ConnectorError)]
    meanings[EXIT_INTERRUPTED] = ["interrupted (Ctrl-C)"]
    return _table(("exit code", "meaning"), [(str(code), "; ".join(texts)) for code, texts in meanings.items()])


def error_codes() -> str:
    """Return the error classes with the code that machines see."""
    kinds = [kind for kind in vars(errors).values() if inspect.isclass(kind) and issubclass(kind, Exception)]
    rows = [(f"`{kind.code}`", str(kind.exit_code), f"`{kind.__name__}`", _first_line(kind)) for kind in kinds]
    return _table(("`code`", "exit code", "class", "meaning"), rows)


def commands(group: str) -> str:
    """Return the commands of a group, from the command line's own help."""
    root: Any = typer.main.get_command(app)
    parts = []
    for name, command in root.commands[group].commands.items():
        usage = " ".join(_usage(command.params))
        parts += [f"### {name}", f"`presage {group} {name} {usage}`", inspect.cleandoc(command.help or "")]
        rows = [_parameter_row(each) for each in command.params if not each.hidden]
        parts.append(_table(("argument", "default", "meaning"), rows))
    return "\n\n".join(parts)


def command(name: str) -> str:
    """Return one command that stands in no group, from the command line's own help."""
    root: Any = typer.main.get_command(app)
    each = root.commands[name]
    usage = " ".join(_usage(each.params))
    rows = [_parameter_row(parameter) for parameter in each.params if not parameter.hidden]
    table = _table(("argument", "default", "meaning"), rows)
    return "\n\n".join([f"`presage {name} {usage}`", inspect.cleandoc(each.help or ""), table])


def orders() -> str:
    """Return the ordering rules with their formulas."""
    rows = [(f"`{spec.name}`", ORDERS.get(spec.name).formula, spec.summary) for spec in ORDERS.specs()]
    return _table(("order", "score, lowest first", "what it is"), rows)


def cluster_orders() -> str:
    """Return the orders that need the whole cluster, with settings and what they are used with."""
    rows = []
    for spec in CLUSTER_ORDERS.specs():
        order = CLUSTER_ORDERS.get(spec.name)
        settings = ", ".join(f"`{field.name}={field.default:g}`" for field in fields(order)) or "none"
        usual = f"+{order.backfilling}@{order.placement}"
        rows.append((f"`{spec.name}`", order.formula, spec.summary, settings, f"`{usual}`"))
    return _table(("order", "score", "what it is", "settings", "usually with"), rows)


def conditions() -> str:
    """Return the tables of a file of conditions with their keys."""
    parts = ("Conditions", "Failures", "Checkpoints", "Drain", "Override", "Throughput", "KindSpeeds")
    lines = []
    for name in parts:
        model = getattr(detailed, name)
        keys = ", ".join(f"`{key}`" for key in model.model_fields)
        lines.append((f"`{name}`", _first_line(model), keys))
    return _table(("table", "what it is", "keys"), lines)


def backfillings() -> str:
    """Return the ways of backfilling."""
    return _registry_table(BACKFILLINGS)


def semantics() -> str:
    """Return when decisions are made."""
    return _table(("name", "what it is"), [(f"`{each.value}`", text) for each, text in SUMMARIES.items()])


def placements() -> str:
    """Return the rules that choose nodes."""
    return _registry_table(PLACEMENTS)


def placed_backfillings() -> str:
    """Return the ways of backfilling on nodes."""
    return _registry_table(PLACED_BACKFILLINGS)


def api(*modules: str) -> str:
    """Return autodoc directives for the public names of these modules, each name where `MODULES` has it first."""
    parts = []
    for module_name in modules:
        module = importlib.import_module(module_name)
        earlier = [importlib.import_module(name) for name in MODULES[: MODULES.index(module_name)]]
        elsewhere = {id(getattr(each, name)): each.__name__ for each in earlier for name in _public_names(each)}
        own = {name: getattr(module, name) for name in _public_names(module)}
        lines = [
            line
            for name, value in own.items()
            if id(value) not in elsewhere
            for line in _autodoc(module_name, name, value)
        ]
        parts += [f"## `{module_name}`", _opening(module)]
        borrowed = [f"`{name}` ({elsewhere[id(value)]})" for name, value in own.items() if id(value) in elsewhere]
        if borrowed:
            parts.append(f"Described on other pages: {', '.join(borrowed)}.")
        parts.append("\n".join(["```{eval-rst}", *lines, "```"]))
    return "\n\n".join(parts)


def trace_read() -> str:
    """Return the measurements of the benchmark `trace_read`, or a sentence that there are none."""
    path = RESULTS / "trace_read.json"
    if not path.is_file():
        return "No measurement is stored here yet. `make prove` makes one."
    result = json.loads(path.read_text())
    stream = result["stream"]
    machine = ", ".join(f"{key} {value}" for key, value in result["machine"].items())
    streamed = (
        f"Streaming {stream['jobs']:,} jobs ({stream['swf_bytes'] / 1e6:,.0f} MB of SWF) to Parquet took "
        f"{stream['convert_s']:.1f} s and at most {stream['peak_rss_bytes'] / 2**30:.2f} GiB of memory; "
        f"the limit is {stream['limit_bytes'] / 2**30:.0f} GiB."
    )
    parts = [f"Presage {result['version']}, {result['date']}; {machine}."]
    for key, where in (("ricc", "on all cores"), ("ricc_one_core", "bound to one core")):
        if key in result:
            parts += _reading_rounds(result[key], where)
    return "\n\n".join([*parts, streamed])


def _reading_rounds(reading: dict[str, Any], where: str) -> list[str]:
    ours, theirs = reading["presage_s"], reading["pandas_s"]
    rows = [
        (f"{tool}, s", f"{times['median']:.3f}", f"{min(times['runs']):.3f}", f"{max(times['runs']):.3f}")
        for tool, times in (("Presage", ours), ("pandas", theirs))
    ]
    speedups = [their / our for their, our in zip(theirs["runs"], ours["runs"], strict=True)]
    rows.append(
        ("speed-up", f"**{reading['speedup_median']:.2f}**", f"{max(speedups):.2f}", f"{min(speedups):.2f}")
    )
    log = f" of {reading['log']}" if "log" in reading else ""
    heading = f"Reading the {reading['jobs']:,} jobs{log} {where}, {len(speedups)} alternating rounds:"
    return [heading, _table(("", "median", "best", "worst"), rows)]


def simulate_results() -> str:
    """Return the measurements of the benchmark `simulate`, or a sentence that there are none."""
    path = RESULTS / "simulate.json"
    if not path.is_file():
        return "No measurement is stored here yet. `make prove` makes one."
    result = json.loads(path.read_text())
    logs = result["pooled"]
    policies = next(iter(logs.values()))
    rows = [
        (f"`{policy}`", *(f"{log[policy]['jobs_per_s_median'] / 1e6:.2f}" for log in logs.values()))
        for policy in policies
    ]
    machine = ", ".join(f"{key} {value}" for key, value in result["machine"].items())
    parts = [
        f"Presage {result['version']}, {result['date']}; {machine}. One thread.",
        "Million jobs per second, median of many calls:",
        _table(("policy", *logs), rows),
    ]
    if result["accasim"]:
        peer = result["accasim"]
        parts.append(
            f"Strict first come, first served on the first log, in the same run: AccaSim (run once) "
            f"{peer['accasim_jobs_per_s']:,} jobs/s, Presage {peer['presage_jobs_per_s']:,} jobs/s, "
            f"**{peer['ratio']:,}** times as many; {peer['equal_starts']:,} of {peer['jobs']:,} starts are equal."
        )
    lengths = list(next(iter(result["saturated"].values()))["us_per_job"])
    rows = [
        (f"`{policy}`", *(str(row["us_per_job"][length]) for length in lengths))
        for policy, row in result["saturated"].items()
    ]
    parts += [
        "All jobs at once, µs per job by the number of jobs:",
        _table(("policy", *(f"{int(length):,}" for length in lengths)), rows),
    ]
    return "\n\n".join(parts)


def placed_results() -> str:
    """Return the measurements of the benchmark `placed`, or a sentence that there are none."""
    path = RESULTS / "placed.json"
    if not path.is_file():
        return "No measurement is stored here yet. `make prove` makes one."
    result = json.loads(path.read_text())
    openb = result["openb"]
    rules = [
        (
            f"`{rule}`", f"{max(row['recorded_s']):.3f}", f"{max(row['at_once_s']):.3f}",
            f"{row['gpu_allocation']:.1%}", f"{row['gpu_fragmentation']:.1%}",
        )
        for rule, row in openb["rules"].items()
    ]  # fmt: skip
    machine = ", ".join(f"{key} {value}" for key, value in result["machine"].items())
    parts = [
        f"Presage {result['version']}, {result['date']}; {machine}. One thread.",
        f"{openb['trace']} on {openb['nodes']:,} nodes, slowest of three calls:",
        _table(("rule", "arriving, s", "at once, s", "GPUs allocated", "free GPU fragmented"), rules),
    ]
    for load in sorted({row["load"] for row in result["scale"]}):
        rows = [row for row in result["scale"] if row["load"] == load]
        parts += [f"Offered load {load}, processor seconds by number of nodes:", _scale_table(rows)]
    return "\n\n".join([*parts, _peak_memory(result["scale"])])


def slurm_results() -> str:
    """Return the measurements of the benchmark `slurm`, or a sentence that there are none."""
    path = RESULTS / "slurm.json"
    if not path.is_file():
        return "No measurement is stored here yet. `make prove` makes one."
    result = json.loads(path.read_text())
    head = (
        "seed, run", "jobs", "backfilled", "mean wait, s", "simulated", "error", "start off, median s", "mean s",
        "ranks of waits", "of starts", "cycles alike",
    )  # fmt: skip
    rows = [
        (
            f"{row['seed']}, {number}", row["jobs"], f"{run['backfilled'] / row['jobs']:.0%}", run["mean_wait_s"],
            model["mean_wait_s"], f"{model['relative_error']:+.1%}", model["median_start_error_s"],
            model["mean_start_error_s"], f"{model['rank_correlation_of_waits']:.3f}",
            f"{model['rank_correlation_of_starts']:.4f}",
            f"{run['cycles_with_equal_starts']} of {run['cycles_with_queue']}",
        )
        for row in result["seeds"]
        for number, run in enumerate(row["runs"], start=1)
        for model in [run["policies"]["fcfs+periodic"]]
    ]  # fmt: skip
    machine = ", ".join(f"{key} {value}" for key, value in result["machine"].items())
    rate = result["setting"]["clock_rate"]
    return "\n\n".join(
        [
            f"Presage {result['version']}, {result['date']}; {machine}; clock {rate} times as fast.",
            "`fcfs+periodic` against each run:",
            _table(head, [tuple(str(cell) for cell in row) for row in rows]),
            _slurm_aims(result["seeds"]),
            "All runs, mean and range; the last row compares the second run of each seed with the first:",
            _table(
                ("", "error of the mean wait", "start off, median s", "mean s", "ranks of waits", "of starts"),
                [_slurm_total(kind, found) for kind, found in result["total"].items()],
            ),
        ]
    )


def load_forecast_results() -> str:
    """Return the measurements of the benchmark `load_forecast`, or a sentence that there are none."""
    path = RESULTS / "load_forecast.json"
    if not path.is_file():
        return "No measurement is stored here yet. `make prove` makes one."
    result = json.loads(path.read_text())
    machine = ", ".join(f"{key} {value}" for key, value in result["machine"].items())
    hours = [f"{hour} h" for hour in result["horizons_h"]]
    parts = [f"Presage {result['version']}, {result['date']}; {machine}."]
    for target, title in _LOAD_TARGETS.items():
        rows = [_load_row(site, target) for site in result["sites"]]
        parts += [
            f"Mean absolute error of {title}; in parentheses the lowest of seasonal forecasts, ETS and AR:",
            _table(("log", "group", "origins", *hours), rows),
        ]
    coverage = [
        (
            site["site"],
            *(f"{100 * share:.0f}" for target in _LOAD_TARGETS for share in _load_of(site, target, "coverage")),
        )
        for site in result["sites"]
    ]
    heads = [f"{target}, {hour}" for target in _LOAD_TARGETS for hour in hours]
    lost = [row for site in result["sites"] for row in _load_losses(site, result["horizons_h"])]
    total = 5 * len(_LOAD_TARGETS) * len(hours) * len(result["sites"])
    return "\n\n".join([
        *parts,
        "Share of outcomes inside the 80 % interval, in percent:",
        _table(("log", *heads), coverage),
        "Pinball loss of all three quantiles relative to that of AR with intervals from its own recent errors:",
        _table(("log", *heads), [_load_pinball(site) for site in result["sites"]]),
        "Waits by size: error of log(1 + wait in s), that of the mean of the last starts, and percent inside:",
        _table(("log", *_LOAD_WAITS), [_load_waits(site) for site in result["sites"]]),
        f"Presage is not better in {len(lost)} of {total:,} comparisons, persistence included:",
        _table(("log", "group", "of what", "ahead", "peer", "Presage", "the peer", "worse by"), lost),
    ])  # fmt: skip


_LOAD_TARGETS = {
    "utilisation": "the utilisation",
    "queue": "log(1 + waiting jobs)",
    "work": "log(1 + 10 waiting hours of the whole machine)",
}
_LOAD_WAITS = [
    f"{size}, {what}" for size in ("small", "medium", "large") for what in ("Presage", "lately", "inside")
]
_LOAD_PEERS = ("seasonal-day", "seasonal-week", "ets", "ar")


def _load_of(site: dict[str, Any], target: str, what: str, model: str = "presage") -> list[float]:
    values: list[float] = site["models"][model][target][what]
    return values


def _load_row(site: dict[str, Any], target: str) -> tuple[str, ...]:
    cells = []
    for place, ours in enumerate(_load_of(site, target, "mae")):
        theirs, peer = min((_load_of(site, target, "mae", peer)[place], peer) for peer in _LOAD_PEERS)
        mark = "**" if ours < theirs else ""
        cells.append(f"{mark}{ours:.3f}{mark} ({theirs:.3f} {peer})")
    return (site["site"], site["group"], str(site["tested_origins"]), *cells)


def _load_pinball(site: dict[str, Any]) -> tuple[str, ...]:
    ratios = [
        ours / theirs if theirs else 1.0
        for target in _LOAD_TARGETS
        for ours, theirs in zip(
            _load_of(site, target, "pinball"), _load_of(site, target, "pinball", "ar"), strict=True
        )
    ]
    return (site["site"], *(f"{ratio:.2f}" for ratio in ratios))


def _load_waits(site: dict[str, Any]) -> tuple[str, ...]:
    cells = []
    for told in site["waits"].values():
        if told["jobs"]:
            cells += [f"{told['mae_log']:.2f}", f"{told['lately_mae_log']:.2f}", f"{100 * told['coverage']:.0f}"]
        else:
            cells += ["", "", ""]
    return (site["site"], *cells)


def _load_losses(site: dict[str, Any], horizons: list[int]) -> Iterator[tuple[str, ...]]:
    for target in _LOAD_TARGETS:
        for peer in ("persistence", *_LOAD_PEERS):
            theirs = _load_of(site, target, "mae", peer)
            for hour, ours, their in zip(horizons, _load_of(site, target, "mae"), theirs, strict=True):
                if ours >= their:
                    worse = f"{100 * (ours / their - 1):.1f} %" if their else ""
                    errors = (f"{ours:.4f}", f"{their:.4f}")
                    yield (site["site"], site["group"], target, f"{hour} h", peer, *errors, worse)


def _slurm_aims(seeds: list[dict[str, Any]]) -> str:
    """Return in how many runs the aims were reached that had been set before any run."""
    runs = [run["policies"]["fcfs+periodic"] for row in seeds for run in row["runs"]]
    again = [row["slurm_against_itself"] for row in seeds]

    def reached(found: list[dict[str, float]]) -> str:
        mean = sum(abs(each["relative_error"]) <= 0.1 for each in found)
        waits, starts = (
            sum(each[f"rank_correlation_of_{name}"] >= 0.95 for each in found) for name in ("waits", "starts")
        )
        return f"the first in {mean}, the second in {waits} for waits and in {starts} for starts"

    return (
        "Aims set before: a mean wait within 10 %, a rank correlation of 0.95. "
        f"Of {len(runs)} runs, the simulator reaches {reached(runs)}. "
        f"Of {len(again)} repetitions, Slurm itself reaches {reached(again)}."
    )


def _scale_table(rows: list[dict[str, Any]]) -> str:
    """Return a line per rule and backfilling, a column per size."""
    sizes = sorted({row["nodes"] for row in rows})
    lines: dict[tuple[str, str], dict[int, str]] = {}
    for row in rows:
        told = f"{row['cpu_s']:.1f}" if "cpu_s" in row else f"over {row['given_up_after_s']:,.0f}"
        lines.setdefault((row["placement"], row["backfilling"]), {})[row["nodes"]] = told
    return _table(
        ("rule", "backfilling", *(f"{size:,}" for size in sizes)),
        [
            (f"`{rule}`", f"`{how}`", *(cells.get(size, "not run") for size in sizes))
            for (rule, how), cells in sorted(lines.items())
        ],
    )


def _peak_memory(rows: list[dict[str, Any]]) -> str:
    """Return a sentence on the memory that the engine took beside the jobs."""
    told = []
    for size in sorted({row["nodes"] for row in rows}):
        done = [row for row in rows if row["nodes"] == size and "peak_bytes" in row]
        if done:
            most = max(row["peak_bytes"] - row["before_bytes"] for row in done)
            told.append(f"{most / 1e6:,.0f} MB for {size:,} nodes and {max(row['jobs'] for row in done):,} jobs")
    return f"Memory that the engine took, at most: {', '.join(told)}."


def _slurm_total(kind: str, found: dict[str, dict[str, float]]) -> tuple[str, ...]:
    def told(name: str, form: str) -> str:
        mean, least, most = (format(found[name][part], form) for part in ("mean", "min", "max"))
        return f"{mean} ({least} to {most})"

    name = "Slurm, again" if kind == "slurm_against_itself" else f"`{kind}`"
    return (
        name,
        told("relative_error", ".1%"),
        told("median_start_error_s", ".1f"),
        told("mean_start_error_s", ".0f"),
        told("rank_correlation_of_waits", ".3f"),
        told("rank_correlation_of_starts", ".4f"),
    )


def anomaly_results() -> str:
    """Return the measurements of the benchmark `anomalies`, or a sentence that there are none."""
    path = RESULTS / "anomalies.json"
    if not path.is_file():
        return "No measurement is stored here yet. `make prove` makes one."
    result = json.loads(path.read_text())
    chosen, judged = result["tuned_on"], result["judged_on"]
    tuning = [
        (
            f"{row['min_score']:g}" + (" (default)" if row["min_score"] == result["min_score"] else ""),
            _percent(row["recall"]),
            f"{row['alarms_per_day']:.2f}",
            f"{row['alarms_per_day_before']:.2f}",
        )
        for row in result["tuning"]
    ]
    parts = [
        f"Presage {result['version']}, {result['date']}.",
        f"Chosen on {', '.join(chosen['traces'])}, seeds {_listed(chosen['seeds'])}:",
        _table(("least score", "found, %", "alarms per day", "of these before injecting"), tuning),
    ]
    told = {"unseen": "Traces that were not looked at before", "seen": "Traces that were looked at while writing"}
    for group, words in told.items():
        names, seeds = ", ".join(judged[group]), _listed(judged["seeds"])
        rows = [_anomaly_row(row) for row in result["kinds"][group]]
        parts += [f"{words}: {names}; seeds {seeds}:", _table(_ANOMALY_COLUMNS, rows)]
    speeds = [
        (row["trace"], f"{row['jobs']:,}", f"{row['find_s']:.1f}", ", ".join(row["skipped"]) or "none")
        for row in result["traces"]
    ]
    return "\n\n".join(
        [*parts, "Time for one look at a whole trace:", _table(("trace", "jobs", "s", "not looked for"), speeds)]
    )


_ANOMALY_COLUMNS = (
    "kind", "by", "injected", "found, %", "alarms per day", "true among new alarms, %", "among all, %",
)  # fmt: skip


def _anomaly_row(row: dict[str, Any]) -> tuple[str, ...]:
    found = f"{_percent(row['recall'])} ({_percent(row['recall_as_any'])})"
    tool = "Presage" if row["tool"] == "presage" else "simple rule"
    shares = (_percent(row["precision_of_new"]), _percent(row["precision"]))
    return (f"`{row['kind']}`", tool, f"{row['injected']:,}", found, f"{row['alarms_per_day']:.3f}", *shares)


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.0f}"


def _listed(values: Sequence[Any]) -> str:
    return ", ".join(map(str, values))


CHOICES_PER_S = 100_000
"""What many machines in one call are to reach."""


def environment_results() -> str:
    """Return how many choices a second the environments take."""
    path = RESULTS / "environments.json"
    if not path.is_file():
        return "No measurement is stored here yet. `make prove` makes one."
    found = json.loads(path.read_text())
    rows = [
        (f"`presage/{name}-v1`", f"{of['choices_per_s']:,}", _listed_runs(of["runs"]["many"]),
         f"{of['choices_per_s_single']:,}", _listed_runs(of["runs"]["single"]))
        for name, of in found["environments"].items()
    ]  # fmt: skip
    head = ("environment", f"{found['machines']} machines in one call", "rounds", "one machine", "rounds")
    said = (
        f"Presage {found['presage']}, {found['made']}; {found['load_average']} processes wanted to run meanwhile."
    )
    missed = [f"`{name}`" for name, of in found["environments"].items() if of["choices_per_s"] < CHOICES_PER_S]
    verdict = f"{_listed(missed)} fell short of" if missed else "All reached"
    return f"{said}\n\n{_table(head, rows)}\n\n{verdict} the {CHOICES_PER_S:,} that were asked for."


def _listed_runs(values: Sequence[int]) -> str:
    return " · ".join(f"{value:,}" for value in values)


def foundation_results(part: str, task: str = "") -> str:
    """Return one part of what was measured of the model's forecasts."""
    if part in ("wait", "run"):
        rules = ("state-knn", "similar") if part == "wait" else ("last-two", "similar")
        tables = foundation_tables.task_tables(part, rules)
        parts = [f"**{title}**\n\n{_table(head, rows)}" for title, head, rows in tables]
        return "\n\n".join(parts) or foundation_tables.NONE
    make, head = _FOUNDATION[part]
    return _table(head, make(task) if task else make())


_BOOSTED = ("boosting, zero-shot", "boosting, in-site")
_FOUNDATION: dict[str, tuple[Callable[..., Iterable[Sequence[str]]], tuple[str, ...]]] = {
    "failures": (
        foundation_tables.failure_rows,
        ("site", "**AUROC, model**", "user-ema", *_BOOSTED, "**AUPRC, model**", "user-ema", *_BOOSTED),
    ),
    "sureness": (
        foundation_tables.sureness_rows,
        ("site", "jobs", "failures", "AUROC, model − boosting", "AUPRC, model − boosting"),
    ),
    "seconds": (
        foundation_tables.seconds_rows,
        ("site", "**model, zero-shot**", *_BOOSTED, "refitted", "model, fine-tuned"),
    ),
    "context": (
        foundation_tables.context_rows,
        ("site", "network", *(f"{known:,} jobs known" for known in foundation_tables.KNOWN_JOBS)),
    ),
    "elsewhere": (
        foundation_tables.elsewhere_rows,
        ("log", "last-two", "similar", "state-knn", "boosting, in-site", "**model, zero-shot**",
         "80 % interval holds"),
    ),
    "schedulers": (
        foundation_tables.scheduler_rows,
        ("site", "task", "no Slurm log seen", "other Slurm logs seen"),
    ),
    "names": (foundation_tables.names_rows, ("log", "jobs tested", "network", "with names", "without")),
    "simulated": (
        foundation_tables.simulated_rows,
        ("site", "jobs tested", "simulation", "model", "both", "share of the simulation"),
    ),
    "memorised": (foundation_tables.memorised_rows, ("log", "task", "shipped: trained on it", "never saw it")),
    "what-if": (
        foundation_tables.what_if_rows,
        ("job asked for", "median wait told, h", "simulated, h", "log MAE", "waits that changed",
         "direction right"),
    ),
    "speed": (
        foundation_tables.speed_rows,
        ("cluster", "forecast, ms p50", "p99", "event, ms p50", "jobs per s"),
    ),
    "losses": (foundation_tables.losses, ("site", "task", "better", "its log MAE", "the model's")),
}  # fmt: skip


def policy_results(part: str, *which: str) -> str:
    """Return one part of what was measured of learned policies."""
    sites = (*policy_tables.SITES, "geo mean")
    if part == "static":
        return _table(("", *policy_tables.SITES), policy_tables.static_rows())
    if part == "online":
        return _table(("log", "as the site lived it", "second round", "third round"), policy_tables.online_rows())
    if part == "speed":
        return _table(("waiting", "p50, ms", "p99, ms"), policy_tables.speed_rows())
    if part == "paired":
        return _table(("", "ordered by", *sites), policy_tables.paired_rows())
    if part == "fcfs":
        return _table(("", "over first come, first served", *sites), policy_tables.fcfs_rows(*which))
    return _table(("policy", *sites), policy_tables.policy_rows(" ".join(which)))


def estimator_results(part: str) -> str:
    """Return one part of what was measured of estimates: walltime, networks, memory or latency."""
    rows = estimator_tables.rows_of(part)
    return _table(estimator_tables.HEADS[part], rows) if rows else estimator_tables.NONE


def plane_results(part: str) -> str:
    """Return one part of what the plane survived: faults or kafka."""
    head, rows = plane_tables.fault_table()
    if part == "kafka":
        head, rows = ("", "events", "callbacks"), plane_tables.kafka_rows()
    return _table(head, rows) if rows else plane_tables.NONE


def learning_curve_results(part: str) -> str:
    """Return the rules, the curves on a workload (as `KTH/forecast`), or those of adapting to a new log."""
    if not learning_curve_tables.CELLS.is_dir():
        return learning_curve_tables.NONE
    if part == "rules":
        return _table(("windows of", *learning_curve_tables.RULES.values()), learning_curve_tables.rule_rows())
    rows = learning_curve_tables.adapting_rows() if part == "adapting" else learning_curve_tables.curve_rows(part)
    return _table(("learner", "decisions", "mean bounded slowdown", "ratio to the index", "by seed"), rows)


def rlscheduler_results(part: str) -> str:
    """Return one part of what was measured beside RLScheduler's published table."""
    if not rlscheduler_tables.kept():
        return rlscheduler_tables.NONE
    make, head = _RLSCHEDULER[part]
    return _table(head, make())


_RLSCHEDULER: dict[str, tuple[Callable[[], Iterable[Sequence[str]]], tuple[str, ...]]] = {
    "rules": (rlscheduler_tables.rule_rows, ("log", "backfilling", *rlscheduler_tables.RULES.values())),
    "learned": (
        rlscheduler_tables.learned_rows,
        ("learned", "log", "backfilling", "RL, published", "ours, mean of seeds", "ours / RL", "seeds", "better",
         "by requests alone", "rehearsed", "seeds, rehearsed"),
    ),
    "sequences": (
        rlscheduler_tables.sequence_rows,
        ("log", "backfilling", "by", *(str(begin) for begin in rlscheduler_tables.begins())),
    ),
}  # fmt: skip


def synthesizer_results(what: str, part: str = "") -> str:
    """Return something that was measured, or a part of it of `families`, `private`, `copies` or `logs`."""
    if not synthesizer_tables.measured():
        return synthesizer_tables.NONE
    whole = {
        "goals": (synthesizer_tables.goal_head, synthesizer_tables.goal_rows),
        "several": (synthesizer_tables.several_head, synthesizer_tables.several_rows),
        "loads": (synthesizer_tables.load_head, synthesizer_tables.load_rows),
        "rivals": (synthesizer_tables.rival_head, synthesizer_tables.rival_rows),
        "shuffled": (synthesizer_tables.shuffled_head, synthesizer_tables.shuffled_rows),
        "traces": (synthesizer_tables.trace_head, synthesizer_tables.trace_rows),
        "queues": (synthesizer_tables.queue_head, synthesizer_tables.queue_rows),
        "perturbed": (synthesizer_tables.perturbed_head, synthesizer_tables.perturbed_rows),
    }
    if what in whole:
        head, rows = whole[what]
        return _table(head(), rows())
    make = {
        "families": synthesizer_tables.family_rows,
        "private": synthesizer_tables.private_rows,
        "copies": synthesizer_tables.copies_rows,
    }
    return _table(synthesizer_tables.head(part), make.get(what, synthesizer_tables.log_rows)(part))


def train_on_synthetic_results(part: str, *which: str) -> str:
    """Return one part of what was measured of policies that were learned on synthetic jobs."""
    if not train_on_synthetic_tables.there():
        return train_on_synthetic_tables.NONE
    return _table(train_on_synthetic_tables.head(part), _TRAIN_ON_SYNTHETIC[part](*which))


_TRAIN_ON_SYNTHETIC: dict[str, Callable[..., Iterable[Sequence[str]]]] = {
    "logs": train_on_synthetic_tables.log_rows,
    "slowdowns": train_on_synthetic_tables.slowdown_rows,
    "ratios": train_on_synthetic_tables.ratio_rows,
    "seeds": train_on_synthetic_tables.seed_rows,
    "models": train_on_synthetic_tables.model_rows,
    "weights": train_on_synthetic_tables.weight_rows,
}


PARTS: dict[str, Callable[..., str]] = {
    "policy-results": policy_results,
    "environments": environment_results,
    "foundation": foundation_results,
    "anomalies": anomaly_results,
    "api": api,
    "backfillings": backfillings,
    "command": command,
    "commands": commands,
    "error-codes": error_codes,
    "estimators": estimator_results,
    "exit-codes": exit_codes,
    "figures": figures,
    "formats": formats,
    "knowledge": knowledge,
    "learning-curves": learning_curve_results,
    "load-forecast": load_forecast_results,
    "models": models,
    "orders": orders,
    "cluster-orders": cluster_orders,
    "conditions": conditions,
    "outcomes": outcomes,
    "placed-backfillings": placed_backfillings,
    "placed": placed_results,
    "placements": placements,
    "plane-results": plane_results,
    "readers": readers,
    "rlscheduler": rlscheduler_results,
    "rules": rules,
    "schema": schema_table,
    "semantics": semantics,
    "settings": settings,
    "simulate": simulate_results,
    "slurm": slurm_results,
    "synthesizers": synthesizers,
    "synthesizer-results": synthesizer_results,
    "trace-read": trace_read,
    "train-on-synthetic": train_on_synthetic_results,
    "writers": writers,
}


class Generated(SphinxDirective):
    """Puts one of `PARTS` in its place."""

    required_arguments: ClassVar[int] = 1
    optional_arguments: ClassVar[int] = 20
    has_content: ClassVar[bool] = False

    def run(self) -> list[nodes.Node]:
        """Return the parsed Markdown."""
        name, *arguments = self.arguments
        return self.parse_text_to_nodes(PARTS[name](*arguments), allow_section_headings=True)


def setup(sphinx: Sphinx) -> dict[str, bool]:
    """Register the directive."""
    sphinx.add_directive("generated", Generated)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def _type_name(dtype: Any) -> str:
    return "Outcome" if isinstance(dtype, pl.Enum) else str(dtype)


def _registry_table(registry: Registry[Any]) -> str:
    return _table(("name", "what it is"), [(f"`{spec.name}`", spec.summary) for spec in registry.specs()])


def _reader_sections() -> Iterator[str]:
    specs = READERS.specs()
    sharing = Counter(_module_of(spec.target) for spec in specs)
    described: set[str] = set()
    for spec in specs:
        module = _module_of(spec.target)
        yield f"### `{spec.name}`"
        if sharing[module] > 1:
            yield inspect.cleandoc(READERS.get(spec.name).__doc__ or spec.summary)
        if module not in described:
            described.add(module)
            yield _module_docstring(spec.target)


def _module_of(target: str) -> str:
    return target.partition(":")[0]


def _module_docstring(target: str) -> str:
    return inspect.cleandoc(importlib.import_module(_module_of(target)).__doc__ or "")


def _first_line(kind: type) -> str:
    return (kind.__doc__ or "").splitlines()[0].rstrip(".")


def _usage(parameters: Sequence[Any]) -> Iterator[str]:
    yield "[OPTIONS]"
    for each in parameters:
        if each.param_type_name == "argument":
            name = each.metavar.strip("[]") + ("…" if each.nargs == -1 else "")
            yield name if each.required else f"[{name}]"


def _parameter_row(each: Any) -> tuple[str, str, str]:
    if each.param_type_name == "argument":
        return f"`{each.metavar.strip('[]')}`", "", each.help
    names = ", ".join(f"`{name}`" for name in each.opts)
    return names, "" if each.default is None or each.default is False else f"`{each.default}`", each.help


def _opening(module: Any) -> str:
    """Return the first sentence of a module's docstring."""
    return inspect.cleandoc(module.__doc__ or "").partition("\n\n")[0]


def _public_names(module: Any) -> list[str]:
    if hasattr(module, "__all__"):
        return [name for name in module.__all__ if not name.startswith("_")]
    return [
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and (inspect.isclass(value) or inspect.isfunction(value))
        and value.__module__ == module.__name__
    ]


def _autodoc(module: str, name: str, value: Any) -> Iterator[str]:
    if inspect.isclass(value) and issubclass(value, BaseModel):
        # What pydantic adds is not ours to describe.
        yield from (f".. autoclass:: {module}.{name}()", "   :no-members:", "")
    elif inspect.isclass(value):
        yield from (f".. autoclass:: {module}.{name}", "")
    elif inspect.isfunction(value):
        yield from (f".. autofunction:: {module}.{name}", "")
    else:
        yield from (
            f".. py:data:: {module}.{name}",
            *_value_line(value),
            "",
            f"   {_constant_text(name, value)}",
            "",
        )


def _value_line(value: Any) -> list[str]:
    return [f"   :value: {value!r}"] if isinstance(value, int | str | tuple) else []


def _constant_text(name: str, value: Any) -> str:
    """Return what a constant means: a registry's kind, or the docstring below the assignment."""
    if isinstance(value, Registry):
        return f"The registry of the kinds of {value.kind}; other packages add to it through `{value.group}`."
    for module in [each for each in sys.modules if each.startswith("presage.")]:
        if vars(sys.modules[module]).get(name) is not value:
            continue  # before its source is parsed, which takes long
        if documented := ModuleAnalyzer.for_module(module).find_attr_docs().get(("", name)):
            return " ".join(documented).strip()
    return ""
