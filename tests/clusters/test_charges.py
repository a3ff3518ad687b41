from __future__ import annotations

import pytest

from presage.clusters import ChargeRule, NodeType, Share, WholeNodes, charged_cores, cost_of, shipped_systems

GIB = 2**30
NODE = NodeType("n", cores=40, memory_bytes=160 * GIB, gpus=2, gpu="v100-16")
RULE = ChargeRule(core_hour=0.003, gpu_hour=0.09, memory_per_core_bytes=4 * GIB, whole_nodes=WholeNodes.MULTI_NODE)


def test_the_worked_example_of_the_ischeduler_paper() -> None:
    pitzer = shipped_systems()["osc-pitzer"]
    on_cpu = cost_of(pitzer.charge, Share(1, 28), pitzer.node_type("c40"), 9 * 3600)
    on_gpu = cost_of(pitzer.charge, Share(1, 28, gpus=1), pitzer.node_type("c40-2v100"), 2 * 3600)
    assert on_cpu == pytest.approx(0.756)
    assert on_gpu == pytest.approx(0.348)


@pytest.mark.parametrize(
    ("share", "cores"),
    [
        (Share(1, 4), 4),
        (Share(1, 4, memory_bytes=16 * GIB), 4),
        (Share(1, 4, memory_bytes=40 * GIB), 10),
        (Share(1, 4, memory_bytes=42 * GIB), 10.5),
        (Share(1, 4, memory_bytes=800 * GIB), 40),
        (Share(2, 4), 40),
    ],
)
def test_memory_and_whole_nodes_stand_for_cores(share: Share, cores: float) -> None:
    assert charged_cores(RULE, share, NODE) == cores


def test_several_nodes_pay_for_all_their_cores_and_gpus() -> None:
    assert cost_of(RULE, Share(2, 1, gpus=1), NODE, 3600) == pytest.approx(2 * (40 * 0.003 + 2 * 0.09))


def test_whole_nodes_may_be_charged_always_or_never() -> None:
    always = ChargeRule(core_hour=1.0, whole_nodes=WholeNodes.ALWAYS)
    never = ChargeRule(core_hour=1.0, whole_nodes=WholeNodes.NEVER)
    assert cost_of(always, Share(1, 1), NODE, 3600) == 40
    assert cost_of(never, Share(3, 2), NODE, 3600) == 6


def test_the_shortest_time_is_charged_in_full() -> None:
    rule = ChargeRule(node_hour=6.0, minimum_s=600)
    assert cost_of(rule, Share(1, 1), NODE, 1) == pytest.approx(1.0)
    assert cost_of(rule, Share(1, 1), NODE, 1200) == pytest.approx(2.0)


def test_spot_nodes_have_their_own_price_where_there_are_any() -> None:
    offer = ChargeRule(node_hour=3.0, spot_node_hour=1.0)
    assert cost_of(offer, Share(2, 1), NODE, 3600, spot=True) == 2
    assert cost_of(offer, Share(2, 1), NODE, 3600) == 6
    assert cost_of(ChargeRule(node_hour=3.0), Share(1, 1), NODE, 3600, spot=True) == 3
