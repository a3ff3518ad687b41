"""The same calls with a service: what is handed over there is looked after there."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import presage
from presage.clusters import NodeType, Partition, Scheduler, System
from presage.estimators import ScriptWorkload, Spread
from presage.helper.jobs import Job
from presage.planner import Stated, StatedEstimates, Strategy, Variant, make_plans

pytest.importorskip("fastapi")


@pytest.mark.slow
def test_a_plan_is_handed_to_the_configured_service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.service.test_up import start

    running = start(tmp_path / "home")
    try:
        monkeypatch.setenv("PRESAGE_SERVICE__ADDRESS", str(running.client._http.base_url))
        monkeypatch.setenv("PRESAGE_SERVICE__TOKEN", running.client._http.headers["authorization"][7:])
        here = System("here", Scheduler.LOCAL, (NodeType("node", 1, 1 << 30),), (Partition("local", ("node",)),))
        stated = Stated(Spread.exactly(1 << 29), {"here": Spread.exactly(60)}, {"here": Spread.exactly(0)})
        plans = make_plans([Variant(ScriptWorkload("hello"))], [here], StatedEstimates(stated), name="hello")
        plan = plans.plan(Strategy.BEST)
        assert plan is not None
        from dataclasses import replace

        program = replace(plan, command=(sys.executable, "-c", "print('hello')"))
        job = presage.submit(program, folder=tmp_path)
        assert isinstance(job, Job)
        assert job.place.is_remote
        done = presage.watch(job, tell=lambda _: None, most_s=60)
        assert done["phase"] == "completed", done["reason"]
        assert (tmp_path / ".presage" / "hello" / "output-1.txt").read_text() == "hello\n"
        job.place.close()  # type: ignore[attr-defined]
    finally:
        running.close()
