"""How good load forecasts are on clusters that the network has never seen, beside usual time-series methods.

Prints one JSON object. Every log is cut to its last 360 days and laid on an hourly grid; origins are every third
hour, and those in the last fifth of the time are scored at 1, 3, 6, 12 and 24 hours. The network is trained on
other logs alone: for a log of the group `chosen` on those of `chosen` and `extra`, for one of the group `reported`
on all but itself. Settings were chosen on `chosen` and frozen before any log of `reported` was scored.

Each log is a cell of its own in a folder and is not repeated; delete its file to run it again. A log that is not
in the folder of real traces is left out.

    python benchmarks/load_forecast.py [--sites KTH-SP2 CTC-SP2] [--cells FOLDER] [--out FILE]
    python benchmarks/load_forecast.py --ship    # train on all logs and store the weights in the package
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import presage
from presage.foundation.load import LOAD_MODELS
from presage.foundation.load.jobs import extract_jobs
from presage.foundation.load.learned import WEIGHTS, Learned, lesson_of, pack
from presage.foundation.load.levels import CLASSES, TARGETS, peak_amount
from presage.foundation.load.network import QUANTILES
from presage.foundation.load.rows import INDEX
from presage.foundation.load.site import Site, levels_until
from presage.foundation.load.training import Lesson, Recipe, train
from presage.traces import read_trace, schema

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from presage.foundation.load._base import LoadModel

REAL = Path(__file__).resolve().parents[2] / "shared" / "data"
CELLS = Path(__file__).resolve().parents[1] / "docs" / "results" / "data" / "load_forecast"
HORIZONS = np.array([1, 2, 3, 4, 6, 9, 12, 16, 20, 24])
SCORED = (1, 3, 6, 12, 24)
STRIDE_H = 3
LONGEST_DAYS = 360
TESTED = 0.2


@dataclass(frozen=True)
class Log:
    """Where a log is, and what it is used for."""

    group: str
    files: tuple[str, ...]
    gpus: bool = False


LOGS = {
    "KTH-SP2": Log("chosen", ("KTH-SP2-1996-2.1-cln.swf.gz",)),
    "CTC-SP2": Log("chosen", ("CTC-SP2-1996-3.1-cln.swf.gz",)),
    "SDSC-SP2": Log("chosen", ("SDSC-SP2-1998-4.2-cln.swf.gz",)),
    "LANL-CM5": Log("chosen", ("LANL-CM5-1994-4.1-cln.swf.gz",)),
    "RICC": Log("chosen", ("RICC-2010-2.swf.gz",)),
    "COARE": Log("chosen", ("DOST-ASTI_COARE-Saliksik-2020-cln.swf.gz",)),
    "SDSC-BLUE": Log("reported", ("SDSC-BLUE-2000-4.2-cln.swf.gz",)),
    "HPC2N": Log("reported", ("HPC2N-2002-2.2-cln.swf.gz",)),
    "CEA-Curie": Log("reported", ("CEA-Curie-2011-2.1-cln.swf.gz",)),
    "ANL-Intrepid": Log("reported", ("ANL-Intrepid-2009-1.swf.gz",)),
    "Sandia-Ross": Log("reported", ("Sandia-Ross-2001-1.1-cln.swf.gz",)),
    "pozidriv": Log("reported", ("xdmod-pozidriv.sacct.txt.gz",)),
    "openb": Log(
        "reported", ("openb/openb_pod_list_default.csv.gz", "openb/openb_node_list_all_node.csv.gz"), gpus=True
    ),
    "LPC-EGEE": Log("extra", ("LPC-EGEE-2004-1.2-cln.swf.gz",)),
    "OSC-Clust": Log("extra", ("OSC-Clust-2000-3.1-cln.swf.gz",)),
    "SDSC-Par": Log("extra", ("SDSC-Par-1996-3.1-cln.swf.gz",)),
    "CERIT-wagap": Log("extra", ("CERIT-wagap-2013.swf.gz",)),
    "METACENTRUM": Log("extra", ("METACENTRUM-2009-2.swf.gz",)),
}


def main() -> None:
    """Score what is missing, print all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    scored = [name for name, log in LOGS.items() if log.group != "extra"]
    parser.add_argument("--sites", nargs="+", choices=scored, default=scored)
    parser.add_argument("--cells", type=Path, default=CELLS, help="where the results of single logs are kept")
    parser.add_argument("--ship", action="store_true", help="train on all logs and store the weights")
    parser.add_argument("--out", type=Path, help="also write the JSON to this file")
    arguments = parser.parse_args()
    if arguments.ship:
        ship()
        return
    arguments.cells.mkdir(parents=True, exist_ok=True)
    cells = [cell(name, arguments.cells / f"{name}.json") for name in arguments.sites if present(name)]
    result = {
        "benchmark": "load_forecast",
        "version": presage.__version__,
        "date": datetime.now(UTC).date().isoformat(),
        "machine": {"cores": os.cpu_count(), "python": platform.python_version()},
        "recipe": asdict(Recipe()),
        "horizons_h": list(SCORED),
        "sites": cells,
        "wins": {
            group: wins([each for each in cells if each["group"] == group]) for group in ("chosen", "reported")
        },
    }
    text = json.dumps(result, indent=1)
    if arguments.out:
        arguments.out.write_text(text + "\n")
    print(text)


def present(name: str) -> bool:
    """Return whether the files of a log are at hand."""
    return all((REAL / file).is_file() for file in LOGS[name].files)


def cell(name: str, path: Path) -> dict[str, Any]:
    """Return the scores of a log, from its file if it has been scored."""
    if path.is_file():
        stored: dict[str, Any] = json.loads(path.read_text())
        return stored
    result = measure(name)
    path.write_text(json.dumps(result, indent=1) + "\n")
    print(f"{name}: {result['seconds']:.0f} s", file=sys.stderr)
    return result


def measure(name: str) -> dict[str, Any]:
    """Train on other logs and score every model on this one."""
    begin = time.monotonic()
    site, log = site_of(name), LOGS[name]
    groups = ("chosen", "extra") if log.group == "chosen" else ("chosen", "extra", "reported")
    others = [each for each in LOGS if each != name and LOGS[each].group in groups and present(each)]
    learned = Learned(train([lesson(each) for each in others], Recipe()))
    models: dict[str, LoadModel] = {"presage": learned}
    models |= {kind: LOAD_MODELS.get(kind)() for kind in LOAD_MODELS if kind != "presage"}
    places = tested(site)
    columns = [list(site.horizons).index(horizon) for horizon in SCORED]
    scores: dict[str, dict[str, Any]] = {kind: {} for kind in models}
    for target in TARGETS:
        came = site.levels.truth(target, site.origins, site.horizons)[places][:, columns]
        for kind, model in models.items():
            scores[kind][target] = score(model.forecast(site, target, places)[:, columns], came)
    return {
        "site": name,
        "group": log.group,
        "capacity": site.levels.capacity,
        "unit": "GPUs" if log.gpus else "processors",
        "days": round(len(site.levels) / 24, 1),
        "tested_origins": len(places),
        "mean_utilisation": round(float(site.levels.utilisation.mean()), 4),
        "trained_on": others,
        "models": scores,
        "waits": {size: score_waits(learned, site, size, places, columns) for size in CLASSES},
        "seconds": round(time.monotonic() - begin, 1),
    }


@cache
def site_of(name: str) -> Site:
    """Return a log on its grid, with the rows of all origins."""
    log = LOGS[name]
    trace = read_trace(*(REAL / file for file in log.files))
    jobs = extract_jobs(trace.jobs, schema.gpus() if log.gpus else schema.size()).jobs
    last_s = float(jobs.submit_s[-1])
    machine = trace.manifest.machine
    known = machine.gpus if log.gpus else machine.cpus
    # Where the log does not tell the size, the most that was held before the first origin that is scored.
    span_s = min(last_s - float(jobs.submit_s[0]), LONGEST_DAYS * 86_400)
    capacity = known or peak_amount(jobs.known_at(last_s - TESTED * span_s))
    levels = levels_until(jobs, float(capacity), last_s, LONGEST_DAYS * 24)
    return Site.build(jobs, levels, np.arange(23, len(levels), STRIDE_H), HORIZONS)


@cache
def lesson(name: str) -> Lesson:
    """Return what a network learns from a log: every second origin."""
    site = site_of(name)
    whole = lesson_of(site)
    kept = np.repeat(np.arange(len(site.origins)) % 2 == 0, len(site.horizons))
    return Lesson(whole.inputs[kept], whole.truths[kept])


def tested(site: Site) -> NDArray[np.int64]:
    """Return the origins in the last part of the time of which all horizons are known."""
    bins = len(site.levels)
    chosen = (site.origins >= int((1 - TESTED) * bins)) & (site.origins + max(SCORED) < bins)
    return np.flatnonzero(chosen)


def score(quantiles: NDArray[np.float64], came: NDArray[np.float64]) -> dict[str, list[float]]:
    """Return, per horizon, the mean absolute error of the median, the pinball loss and the coverage."""
    levels = np.asarray(QUANTILES)
    miss = came[..., None] - quantiles
    inside = (came >= quantiles[..., 0]) & (came <= quantiles[..., 2])
    return {
        "mae": rounded(np.abs(miss[..., 1]).mean(0)),
        "pinball": rounded(np.maximum(levels * miss, (levels - 1) * miss).mean((0, 2))),
        "coverage": rounded(inside.mean(0)),
    }


def score_waits(
    learned: Learned, site: Site, size: str, places: NDArray[np.int64], columns: list[int]
) -> dict[str, Any]:
    """Return how well waits of a size class are told, all horizons together."""
    came = site.levels.truth("wait", site.origins, site.horizons)[places][:, columns, CLASSES.index(size)]
    there = np.isfinite(came)
    if not there.any():
        return {"jobs": 0}
    quantiles = learned.waits(site, size, places)[:, columns][there]
    lately = site.rows[places][:, columns, INDEX[f"recent_wait_{size}"]][there]
    scores = score(quantiles[:, None], came[there][:, None])
    return {
        "jobs": int(there.sum()),
        "mae_log": scores["mae"][0],
        "coverage": scores["coverage"][0],
        "lately_mae_log": rounded(np.abs(came[there] - lately).mean()),
    }


def rounded(values: Any) -> Any:
    """Return numbers with five digits behind the point."""
    return np.round(np.asarray(values, np.float64), 5).tolist()


def wins(cells: list[dict[str, Any]]) -> dict[str, dict[str, list[int]]]:
    """Return, per target and peer, on how many logs Presage has the lower error, by horizon."""
    peers = [kind for kind in LOAD_MODELS if kind != "presage"]
    return {
        target: {
            peer: [
                sum(
                    each["models"]["presage"][target]["mae"][place] < each["models"][peer][target]["mae"][place]
                    for each in cells
                )
                for place in range(len(SCORED))
            ]
            for peer in peers
        }
        for target in TARGETS
    }


def ship() -> None:
    """Train on all logs at hand and store the weights with their recipe."""
    from safetensors.numpy import save_file

    names = [name for name in LOGS if present(name)]
    networks = train(
        [lesson(name) for name in names], Recipe(), lambda loss: print(f"{loss:.4f}", file=sys.stderr)
    )
    save_file(pack(networks), WEIGHTS)
    card = {
        "recipe": asdict(Recipe()),
        "trained_on": names,
        "horizons_h": HORIZONS.tolist(),
        "inputs": [
            *INDEX,
            *(f"{target}_change" for target in TARGETS),
            *(f"{target}_error" for target in TARGETS),
        ],
        "version": presage.__version__,
        "numpy": np.__version__,
        "date": datetime.now(UTC).date().isoformat(),
    }
    WEIGHTS.with_suffix(".json").write_text(json.dumps(card, indent=1) + "\n")


if __name__ == "__main__":
    main()
