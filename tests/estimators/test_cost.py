from __future__ import annotations

from typing import Any

import pytest

from presage.clusters.charges import ChargeRule, Share, WholeNodes
from presage.clusters.systems import NodeType
from presage.estimators import EstimateRequest, Quantity, ScriptWorkload, Spread, Target, UnsupportedError
from presage.estimators.asking import ask
from presage.estimators.cost import Charge

HOUR = 3600.0
NODE = NodeType("node", cores=40, memory_bytes=160 << 30, gpus=2, gpu="v100-32")
RULE = ChargeRule(core_hour=0.003, gpu_hour=0.09)
SHARE = Share(1, 28)


def request(
    walltime: Spread | None, rule: ChargeRule | None = RULE, share: Share = SHARE, **more: Any
) -> EstimateRequest:
    target = Target("lab", "batch", NODE, share, charge=rule, **more)
    return EstimateRequest(Quantity.COST, ScriptWorkload("job"), target, walltime=walltime)


def test_the_cost_follows_the_wall_time() -> None:
    answer = Charge().estimate(request(Spread(8 * HOUR, 9 * HOUR, 12 * HOUR)))
    assert answer.spread.as_dict() == pytest.approx({"p10": 0.672, "p50": 0.756, "p90": 1.008})
    assert answer.details["currency"] == "USD"
    with_gpu = Charge().estimate(request(Spread.exactly(2 * HOUR), share=Share(1, 28, 1)))
    assert with_gpu.spread.p50 == pytest.approx(0.348)


def test_whole_nodes_memory_and_the_shortest_time_are_paid_for() -> None:
    whole = ChargeRule(core_hour=1.0, gpu_hour=10.0, whole_nodes=WholeNodes.MULTI_NODE)
    paid = Charge().estimate(request(Spread.exactly(HOUR), whole, Share(2, 1)))
    assert paid.spread.p50 == pytest.approx(2 * (40 + 20))
    by_memory = ChargeRule(core_hour=1.0, memory_per_core_bytes=4 << 30)
    paid = Charge().estimate(request(Spread.exactly(HOUR), by_memory, Share(1, 2, memory_bytes=32 << 30)))
    assert paid.spread.p50 == pytest.approx(8)
    short = Charge().estimate(request(Spread.exactly(60), ChargeRule(core_hour=1.0, minimum_s=HOUR), Share(1, 2)))
    assert short.spread.p50 == pytest.approx(2)
    assert short.notes == ("At least 3600 s are charged",)


def test_spot_nodes_have_their_own_price() -> None:
    rule = ChargeRule(node_hour=3.0, spot_node_hour=1.0)
    assert Charge().estimate(request(Spread.exactly(HOUR), rule)).spread.p50 == pytest.approx(3)
    assert Charge().estimate(request(Spread.exactly(HOUR), rule, spot=True)).spread.p50 == pytest.approx(1)


@pytest.mark.parametrize("asked", [request(None), request(Spread.exactly(1), None)])
def test_without_rule_or_time_there_is_no_answer(asked: EstimateRequest) -> None:
    with pytest.raises(UnsupportedError):
        Charge().estimate(asked)
    with pytest.raises(UnsupportedError):
        Charge().estimate(EstimateRequest(Quantity.COST, ScriptWorkload("job")))


def test_it_is_asked_by_name() -> None:
    assert ask(request(Spread.exactly(HOUR)), names=["charge"]).estimator == "charge"
