"""What a person in a notebook does: estimate, plan, hand over, watch."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

import presage
from presage.errors import InputError, UnknownNameError, UsageError
from presage.helper.tables import Table

torch = pytest.importorskip("torch")


@pytest.fixture(scope="module")
def found() -> Any:
    network = torch.nn.Sequential(torch.nn.Linear(100, 50), torch.nn.ReLU(), torch.nn.Linear(50, 10))
    return presage.estimate(
        network, torch.zeros(1, 100), batch_sizes=[8, 16], epochs=2, samples=1000, gpus=["v100-32"]
    )


def test_an_object_is_estimated_for_every_batch_and_gpu(found: Any) -> None:
    small, large = found.estimates
    parameters = 100 * 50 + 50 + 50 * 10 + 10
    assert small.profile.parameter_count == parameters
    assert small.profile.parts.optimizer >= 2 * 4 * parameters  # Adam's two averages
    assert small.memory.spread.p50 <= large.memory.spread.p50
    assert small.fits
    assert "unverified" in small.memory.basis.value
    assert "5,560 parameters" in repr(found)
    assert "<td>8</td>" in found._repr_html_()


def test_one_batch_and_one_gpu_need_no_list() -> None:
    found = presage.estimate(torch.nn.Linear(4, 2), torch.zeros(1, 4), batch_sizes=8, gpus="v100-32")
    assert [(each.workload.options.batch, each.place) for each in found.estimates] == [(8, "one v100-32")]


def test_plans_have_three_strategies_and_show_themselves(found: Any) -> None:
    plans = found.plan(
        ["osc-pitzer"], waits={"osc-pitzer/serial": 0, "osc-pitzer": "26h"}, hours={"osc-pitzer": 2.0},
        gpus=[0, 1], command=["python", "train.py"],
    )  # fmt: skip
    assert {proposal.strategy.value for proposal in plans.plans.proposals} == {
        "best-configuration", "by-availability", "short-hops",
    }  # fmt: skip
    chosen = plans.choose("by-availability")
    assert chosen.legs[0].place == "osc-pitzer/serial"
    assert chosen.completion.p50 == pytest.approx(2 * 3600, rel=0.01)
    assert "Strategies" in repr(plans)


def test_figures_are_drawn(found: Any) -> None:
    pytest.importorskip("matplotlib")
    plans = found.plan(["laptop"], waits={"laptop": 0}, hours={"laptop": 1.0}, command=["true"])
    for figure in (found.plot(), plans.plot()):
        assert figure.axes[0].get_xlabel()


def test_what_cannot_be_is_said_in_words(found: Any) -> None:
    with pytest.raises(UsageError, match="whole numbers from 1 up"):
        presage.estimate(torch.nn.Linear(1, 1), torch.zeros(1, 1), batch_sizes=[0])
    for wrong, problem in (
        ({"precision": "fp31"}, "Did you mean 'fp32'?"), ({"attention": "flsh"}, "'flash'"),
        ({"epochs": -1, "samples": 10}, "epochs cannot be -1"), ({"batch_sizes": ["8"]}, "whole numbers"),
    ):  # fmt: skip
        with pytest.raises(UsageError, match=re.escape(problem)):
            presage.estimate(torch.nn.Linear(1, 1), torch.zeros(1, 1), **wrong)
    with pytest.raises(UsageError, match=r"what presage\.estimate returns"):
        presage.plan("train.py:build_model", ["laptop"])
    with pytest.raises(UsageError, match="by-availability"):
        found.plan("laptop", hours={"laptop": 1.0}).choose("availability")
    with pytest.raises(UsageError, match="none of the systems has"):
        found.plan("laptop", waits={"labtop": "5h"})
    with pytest.raises(UnknownNameError, match="no job named"):
        presage.watch("j00000000000")
    with pytest.raises(UsageError, match="example tensors"):
        presage.estimate(torch.nn.Linear(1, 1))
    with pytest.raises(InputError, match="deadline"):
        found.plan(["laptop"], waits={"laptop": "5h"}, hours={"laptop": 1.0}, deadline="1h").choose()
    with pytest.raises(InputError, match="same reduction dim"):
        presage.estimate(torch.nn.Linear(3, 1), torch.zeros(1, 100), batch_sizes=[4])


def test_hostile_words_stay_words() -> None:
    table = Table("<b>", ("[red]",), (("<script>[/]",),))
    assert "<script>" not in table.as_html()
    assert "<script>[/]" in table.as_text()


@pytest.mark.slow
def test_a_notebook_hands_over_and_watches_to_the_end(tmp_path: Path) -> None:
    """In a process of its own, as a person would: no service, an empty home."""
    (tmp_path / "train.py").write_text(
        textwrap.dedent(
            """
            import presage

            class Model:
                seen = 0
                def state_dict(self): return {"seen": self.seen}
                def load_state_dict(self, state): self.seen = state["seen"]

            model = Model()
            for epoch in presage.track(3, model=model):
                model.seen += 1
            """
        )
    )
    notebook = textwrap.dedent(
        f"""
        import presage, torch
        found = presage.estimate(torch.nn.Linear(10, 1), torch.zeros(1, 10), epochs=1, samples=100)
        plans = found.plan(
            ["laptop"], waits={{"laptop": 0}}, hours={{"laptop": 0.1}}, cores=1,
            command=[{sys.executable!r}, "train.py"], name="line",
        )
        job = plans.submit()
        lines = []
        status = presage.watch(job, tell=lines.append, most_s=90)
        print(status["phase"], status["progress"]["done"], any("finished" in line for line in lines))
        """
    )
    environment = {**os.environ, "PRESAGE_HOME": str(tmp_path / "home"), "XDG_CONFIG_HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", notebook],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=150,
    )
    assert done.stdout.split()[-3:] == ["completed", "3.0", "True"], done.stdout + done.stderr
