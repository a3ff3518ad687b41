from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from presage.clusters.charges import ChargeRule
from presage.clusters.systems import Limits, NodeType, Partition, Scheduler, System
from presage.estimators import Spread, TrainingOptions, TrainingWorkload
from presage.planner import (
    Assumptions,
    Budget,
    Constraints,
    Counts,
    Night,
    Overheads,
    Plan,
    Plans,
    Stated,
    Strategy,
    Variant,
)
from presage.planner.pareto import front
from tests.planner.making import GIB, HOUR, LAB, exact, plans_for

COSTS = Overheads(save_s=60, restart_s=120, warning_s=120)


def planned(plans: Plans, strategy: Strategy) -> Plan:
    plan = plans.plan(strategy)
    assert plan is not None
    return plan


def test_the_three_strategies_are_always_there() -> None:
    plans = plans_for(
        Stated(None, exact(batch=9, accelerated=2, test=2), exact(batch=0, accelerated=26, test=0.5))
    )
    assert [proposal.strategy for proposal in plans.proposals] == [
        Strategy.BEST, Strategy.AVAILABILITY, Strategy.HOPS,
    ]  # fmt: skip
    best, soonest, hops = (planned(plans, each.strategy) for each in plans.proposals)
    assert (best.legs[0].place, best.completion.p50) == ("lab/accelerated", 28 * HOUR)
    assert (soonest.legs[0].place, soonest.completion.p50) == ("lab/batch", 9 * HOUR)
    assert {leg.place for leg in hops.legs} == {"lab/test"}
    # 58 min of work, 56, and 6 more; 3 minutes between two, and waits of half an hour that overlap with runs
    assert [leg.work_s / 60 for leg in hops.legs] == [58, 56, 6]
    assert hops.completion.p50 == pytest.approx(0.5 * HOUR + 2 * HOUR + 2 * 180)
    assert "19 h later and 2.2 USD cheaper than by-availability" in best.trade_off
    assert "starts after a wait of 26 h" in best.trade_off
    assert "19 h sooner and 2.2 USD dearer than best-configuration" in soonest.trade_off
    assert "3 short jobs" in hops.trade_off


def test_it_starts_on_lesser_nodes_and_moves_when_better_ones_come() -> None:
    stated = Stated(None, exact(batch=20, accelerated=4, test=4), exact(batch=0, accelerated=5, test=99))
    plans = plans_for(stated, assumptions=Assumptions(overheads=COSTS))
    plan = planned(plans, Strategy.AVAILABILITY)
    first, second = plan.legs
    # After 5 of 20 hours a quarter is done; then save, restart, and three quarters of 4 hours.
    assert plan.completion.p50 == pytest.approx(5 * HOUR + 60 + 120 + 3 * HOUR)
    assert plan.cost.p50 == pytest.approx((5 * HOUR + 60) / HOUR * 0.4 + (3 * HOUR + 120) / HOUR * 0.7)
    assert plan.run.p50 == pytest.approx(8 * HOUR)
    assert (first.place, first.saves, first.work_share) == ("lab/batch", True, pytest.approx(0.25))
    assert (second.place, second.restarts, second.work_share) == ("lab/accelerated", True, pytest.approx(0.75))
    assert (second.submit_s, second.takes_over, second.after) == (0, 1, None)
    assert second.start_s == pytest.approx(first.end_s)
    assert (first.walltime_s, second.walltime_s) == (22 * HOUR, pytest.approx((3 * HOUR + 120) * 1.1, abs=60))
    assert "lab/batch (40 cores); after 5 h, with 25% done, lab/accelerated (20 cores, 1 GPU)" in plan.summary
    assert "lesser nodes" in plan.trade_off


def test_it_stays_where_a_move_is_not_worth_it() -> None:
    stated = Stated(None, exact(batch=5.02, accelerated=4), exact(batch=0, accelerated=5))
    plan = planned(plans_for(stated, assumptions=Assumptions(overheads=COSTS)), Strategy.AVAILABILITY)
    assert [leg.place for leg in plan.legs] == ["lab/batch"]
    assert "nothing is worth a move" in plan.trade_off


def test_it_moves_later_in_a_cascade_too() -> None:
    stated = Stated(None, exact(batch=60, accelerated=6, test=6), exact(batch=0, accelerated=30, test=999))
    plan = planned(plans_for(stated, assumptions=Assumptions(overheads=COSTS)), Strategy.AVAILABILITY)
    assert [leg.place for leg in plan.legs] == ["lab/batch", "lab/batch", "lab/accelerated"]
    assert [(leg.after, leg.takes_over) for leg in plan.legs] == [(None, None), (1, None), (None, 2)]
    done_s = (24 * HOUR - 120) + (30 * HOUR - (24 * HOUR - 120 + 60) - 120)
    assert plan.completion.p50 == pytest.approx(30 * HOUR + 180 + (1 - done_s / (60 * HOUR)) * 6 * HOUR)


def test_a_user_with_one_job_cannot_wait_and_run_at_once() -> None:
    both = replace(
        LAB,
        partitions=(Partition("all", ("cpu", "gpu"), Limits(max_walltime_s=24 * HOUR, user_submitted_jobs=1)),),
    )
    stated = Stated(None, {"lab/cpu": Spread.exactly(20 * HOUR), "lab/gpu": Spread.exactly(4 * HOUR)}, {})
    plans = plans_for(stated, both)
    assert len(planned(plans, Strategy.AVAILABILITY).legs) == 1
    hops = plans_for(
        Stated(None, {"*": Spread.exactly(2 * HOUR)}, {"*": Spread.exactly(HOUR)}),
        replace(
            LAB,
            partitions=(replace(LAB.partitions[2], limits=Limits(max_walltime_s=HOUR, user_submitted_jobs=1)),),
        ),
    )
    # Every one of three jobs waits its full hour.
    assert planned(hops, Strategy.HOPS).completion.p50 == pytest.approx(5 * HOUR + 2 * 180)


def test_variants_and_currencies_are_not_mixed_in_a_move() -> None:
    stated = Stated(None, exact(batch=20, accelerated=4), exact(batch=0, accelerated=5))
    foreign = replace(LAB.partitions[1], charge=ChargeRule(currency="SU", gpu_hour=1))
    plans = plans_for(stated, replace(LAB, partitions=(LAB.partitions[0], foreign)))
    assert len({leg.place for leg in planned(plans, Strategy.AVAILABILITY).legs}) == 1
    net = TrainingWorkload("net", ((3,),))
    variants = tuple(Variant(replace(net, options=TrainingOptions(batch=n)), f"batch {n}") for n in (32, 64))
    moved = planned(plans_for(stated, variants=variants), Strategy.AVAILABILITY)
    batches = {leg.workload.options.batch for leg in moved.legs if isinstance(leg.workload, TrainingWorkload)}
    assert (len(moved.legs), batches, moved.variant) == (2, {32}, "batch 32")


def test_hops_run_through_the_night_if_somebody_says_so() -> None:
    stated = Stated(None, exact(batch=9, accelerated=2, test=2.5), exact(batch=0, accelerated=26, test=6))
    nine = datetime(2026, 3, 2, 19, tzinfo=UTC)
    night = Assumptions(overheads=COSTS, night=Night(20, 8, wait_s=0), now=nine)
    by_day = planned(plans_for(stated, assumptions=Assumptions(overheads=COSTS)), Strategy.HOPS)
    at_night = planned(plans_for(stated, assumptions=night), Strategy.HOPS)
    assert by_day.completion.p50 > 18 * HOUR
    assert at_night.completion.p50 == pytest.approx(HOUR + 2.5 * HOUR + 2 * 180)
    assert at_night.notes[-1] == "Assumes that lab/test is idle from 20:00 to 8:00"
    zoned = plans_for(stated, replace(LAB, time_zone="America/New_York"), assumptions=night)  # 14:00 there
    assert planned(zoned, Strategy.HOPS).completion.p50 == pytest.approx(6 * HOUR + 2.5 * HOUR + 2 * 180)


def test_a_strategy_without_a_plan_says_why() -> None:
    stated = Stated(
        Spread.exactly(400 * GIB), exact(batch=1, accelerated=1, test=1), exact(batch=0, accelerated=0)
    )
    plans = plans_for(stated)
    assert [proposal.plan for proposal in plans.proposals] == [None, None, None]
    words = [reason.words for reason in plans.proposals[0].reasons]
    assert words == [
        "lab/accelerated, lab/test: memory 400 GiB > 29.8 GiB of the GPU v100-32",
        "lab/batch: memory 400 GiB > 178 GiB of a node cpu",
    ]
    without = plans_for(Stated(None, exact(batch=1), exact(batch=0)), constraints=Constraints(only=("lab/batch",)))
    assert [reason.code for reason in without.proposals[2].reasons] == ["no-development"]


def test_a_budget_holds_for_moves_too() -> None:
    stated = Stated(None, exact(batch=20, accelerated=4, test=4), exact(batch=0, accelerated=5, test=99))
    plans = plans_for(stated, constraints=Constraints(budget=Budget(3.0)))
    plan = planned(plans, Strategy.AVAILABILITY)  # moving costs 4.2, staying 8
    assert [leg.place for leg in plan.legs] == ["lab/accelerated"]
    assert plan.cost.p90 <= 3.0


def test_what_no_number_of_jobs_can_do_is_no_hop_either() -> None:
    stated = Stated(None, exact(batch=9, accelerated=2, test=900), exact(batch=0, accelerated=0, test=0))
    proposal = plans_for(stated).proposals[2]
    assert proposal.plan is None
    assert "no 200 cascaded jobs would do it" in proposal.reasons[0].words


hours = st.floats(0.01, 400)
spreads = st.builds(
    lambda median, down, up: Spread(median * HOUR / down, median * HOUR, median * HOUR * up),
    hours, st.floats(1, 3), st.floats(1, 3),
)  # fmt: skip
waits = st.one_of(st.just(Spread.exactly(0)), spreads)


@st.composite
def systems(draw: st.DrawFn) -> System:
    """Two or three partitions of two kinds of nodes with limits of all kinds."""
    kinds = (
        NodeType("a", draw(st.integers(1, 64)), 64 * GIB, count=draw(st.integers(1, 8))),
        NodeType("b", draw(st.integers(1, 64)), 64 * GIB, gpus=draw(st.integers(1, 4)), gpu="v100-16"),
    )
    partitions = [
        Partition(
            f"p{index}", draw(st.sampled_from([("a",), ("b",), ("a", "b")])),
            Limits(
                max_nodes=draw(st.none() | st.integers(1, 4)),
                max_cores=draw(st.none() | st.integers(1, 128)),
                max_walltime_s=draw(st.none() | st.floats(300, 200 * HOUR)),
                user_submitted_jobs=draw(st.none() | st.integers(0, 3)),
                user_gpus=draw(st.none() | st.integers(0, 4)),
            ),
            development=draw(st.booleans()), enabled=draw(st.integers(0, 9)) > 0,
        )
        for index in range(draw(st.integers(2, 3)))
    ]  # fmt: skip
    rule = ChargeRule(
        core_hour=draw(st.floats(0, 2)), gpu_hour=draw(st.floats(0, 9)), minimum_s=draw(st.floats(0, 600))
    )
    return System("s", draw(st.sampled_from(Scheduler)), kinds, tuple(partitions), charge=rule)


Case = tuple[System, Spread, Spread, Spread, Spread, Spread]
cases = st.tuples(systems(), spreads, spreads, waits, waits, spreads.map(lambda each: each.times(GIB / HOUR / 20)))


def plans_of(case: Case, factor: float = 1.0, **more: Any) -> Plans:
    system, slow, fast, wait, other_wait, memory = case
    stated = Stated(
        memory, {"s/a": slow.times(factor), "s/b": fast.times(factor)}, {"s/p0": wait, "*": other_wait}
    )
    return plans_for(stated, system, counts=Counts(nodes=(1, 2)), **more)


@settings(max_examples=30)
@given(cases)
def test_no_plan_breaks_a_limit_and_its_legs_make_the_run(case: Case) -> None:
    plans = plans_of(case)
    system = case[0]
    for proposal in plans.proposals:
        assert (proposal.plan is None) == bool(proposal.reasons)
        if proposal.plan is None:
            continue
        assert sum(leg.work_share for leg in proposal.plan.legs) == pytest.approx(1, abs=1e-6)
        for leg in proposal.plan.legs:
            partition, share = system.partition(leg.partition), leg.share
            limits, node = partition.limits, system.node_type(leg.node_type)
            assert partition.enabled
            assert limits.user_submitted_jobs != 0
            assert leg.walltime_s <= (limits.max_walltime_s or leg.walltime_s)
            assert leg.end_s - leg.start_s <= leg.walltime_s + 1e-5
            assert share.nodes <= min(limits.max_nodes or 99, node.count or 99)
            assert share.nodes * share.cores <= (limits.max_cores or 999)
            assert share.cores <= node.cores
            assert share.gpus <= node.gpus
            assert limits.user_gpus is None or share.nodes * share.gpus <= limits.user_gpus
            assert leg.submit_s <= leg.start_s + 1e-6
            before = leg.after or leg.takes_over
            if before is not None:
                assert leg.start_s >= proposal.plan.legs[before - 1].end_s - 1e-5
        assert max(leg.end_s for leg in proposal.plan.legs) == pytest.approx(proposal.plan.legs[-1].end_s)


@settings(max_examples=20)
@given(cases, st.floats(1, 4))
def test_a_longer_run_never_completes_earlier_nor_costs_less(case: Case, factor: float) -> None:
    shorter, longer = plans_of(case), plans_of(case, factor)
    for one, other in zip(shorter.options, longer.options, strict=True):
        if one.completion is None or one.cost is None or other.completion is None or other.cost is None:
            continue
        assert other.completion.p50 >= one.completion.p50 * (1 - 1e-9)
        assert other.completion.p90 >= one.completion.p90 * (1 - 1e-9)
        assert other.cost.p50 >= one.cost.p50 * (1 - 1e-9)
        assert other.jobs >= one.jobs


@settings(max_examples=20)
@given(cases)
def test_nothing_on_the_front_is_dominated_and_nothing_else_is_undominated(
    case: Case,
) -> None:
    plans = plans_of(case)
    known = [
        (option.completion.p50, option.cost.p50, option)
        for option in plans.options
        if option.fits and option.completion and option.cost
    ]
    chosen = {id(option) for option in front(plans.options)}
    values = {(time, cost) for time, cost, option in known if id(option) in chosen}
    for time, cost, option in known:
        beaten = any(t <= time and c <= cost and (t, c) != (time, cost) for t, c, _ in known)
        assert (id(option) in chosen) <= (not beaten)
        assert beaten or (time, cost) in values


@settings(max_examples=20)
@given(cases, st.floats(0.001, 500), st.floats(1, 500))
def test_budget_and_deadline_are_respected(case: Case, budget: float, deadline_h: float) -> None:
    asked = Constraints(deadline_s=deadline_h * HOUR, budget=Budget(budget))
    plans = plans_of(case, constraints=asked)
    for proposal in plans.proposals:
        if proposal.plan is not None:
            assert proposal.plan.cost.quantile(0.9) <= budget * (1 + 1e-9)
            assert proposal.plan.completion.quantile(0.9) <= deadline_h * HOUR * (1 + 1e-9)
