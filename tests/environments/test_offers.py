"""What the reference says that each environment has, tried out."""

from __future__ import annotations

import inspect
import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import presage.environments as environments
from presage.environments import Mixed, NodeFailures, ProcessorFailures, Windows
from presage.environments.objectives import QUANTITIES
from presage.simulator import Metrics, on_equal_nodes
from presage.traces import Trace
from presage.traces.workloads import make_model

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "python" / "environments.md"
NAMES = ("BatchOrder", "Backfill", "SubmitTime", "Placement", "KubeCluster")
JOBS = 120


@pytest.fixture(scope="module")
def trace() -> Trace:
    """Processors and, for those who ask, nodes: any trace serves all environments."""
    return on_equal_nodes(make_model("lublin").generate(300, seed=3), nodes=32)


def offers(name: str) -> dict[str, str]:
    """Return the column of an environment in the table: what it has by the first name of each row."""
    section = PAGE.read_text().partition("## What each has\n")[2].partition("\n## ")[0]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in section.splitlines() if line[:1] == "|"]
    column = rows[0].index(name)
    return {re.findall(r"`(\w+)`", row[0])[0]: row[column].strip("`") for row in rows[2:]}


def workload_of(name: str, trace: Trace, **settings: Any) -> Any:
    failing = offers(name)["failures"]
    failures = ProcessorFailures(4e3, 2e3, 64) if failing == "ProcessorFailures" else NodeFailures(4e3, 2e3)
    kind = getattr(environments, offers(name)["workload"])
    return kind(trace, **{"jobs": JOBS, "load": 1.2, "failures": failures, "override_share": 0.1, **settings})


def play(name: str, workload: Any, **settings: Any) -> tuple[float, dict[str, float]]:
    """Return the sum of the rewards of the first episode of two clusters that ends, and what is told of it."""
    many = getattr(environments, f"{name}Vector")(workload, 2, **settings)
    _, infos = many.reset(seed=5)
    total = np.zeros(2)
    while "final_info" not in infos:
        _, rewards, done, _, infos = many.step(infos["action_mask"].argmax(1))
        total += rewards
    which = int(done.argmax())
    return float(total[which]), {key: float(values[which]) for key, values in infos["final_info"].items()}


@pytest.mark.parametrize("name", NAMES)
def test_load_failures_and_overrides_go_together(name: str, trace: Trace) -> None:
    """Also over a long run, which is the whole trace: somebody is killed, and who is put first waits less."""
    _, told = play(name, workload_of(name, trace, jobs=len(trace)))

    assert set(offers(name)) >= {"load", "jobs", "override_share"}
    assert np.isfinite(list(told.values())).all()
    if name != "SubmitTime":
        assert told["overrides"] > 10
        assert told["kills"] > 0
        assert told["override_wait_s"] < told["mean_wait_s"]


@pytest.mark.parametrize("name", NAMES)
def test_infos_are_those_of_the_reference(name: str, trace: Trace) -> None:
    section = PAGE.read_text().partition("## Infos\n")[2].partition("\n## ")[0]
    about_chains = name == "SubmitTime"
    described = set() if about_chains else {field.name for field in fields(Metrics)}
    for keys, when in re.findall(r"^\| (`.*?) \| the episode is over(.*?) \|", section, re.MULTILINE):
        if when in ("", ", SubmitTime" if about_chains else ", all but SubmitTime"):
            described |= set(re.findall(r"`(\w+)`", keys))
    _, told = play(name, workload_of(name, trace, jobs=32))

    assert set(told) == described


@pytest.mark.parametrize("setting", ["objective", "interruption_price", "overlap_price", "fragmentation_price"])
def test_settings_are_where_the_table_says(setting: str) -> None:
    for name in NAMES:
        there = setting in inspect.signature(getattr(environments, f"{name}Vector")).parameters
        told = offers(name)["interruption_price" if setting == "overlap_price" else setting]
        assert told == ("yes" if there else "no"), (name, setting)


@pytest.mark.parametrize("name", [name for name in NAMES if name != "SubmitTime"])
def test_every_quantity_is_a_reward(name: str, trace: Trace) -> None:
    workload = workload_of(name, trace, deadline_factor=0.5)
    parts = {quantity: play(name, workload, objective=quantity)[0] for quantity in QUANTITIES}
    mixture = ",".join(f"{quantity}=0.5" for quantity in QUANTITIES)
    whole, _ = play(name, workload, objective=mixture)

    assert offers(name)["objective"] == offers(name)["deadline_factor"] == "yes"
    assert all(value != 0 for value in parts.values()), parts
    assert whole == pytest.approx(0.5 * sum(parts.values()))


@pytest.mark.parametrize("name", [name for name in NAMES if offers(name)["workload"] == "Windows"])
def test_several_sources_are_mixed(name: str, trace: Trace) -> None:
    model = Windows(make_model("lublin").generate(100, seed=1), jobs=50)
    _, told = play(name, Mixed([model, workload_of(name, trace)]))

    assert told
