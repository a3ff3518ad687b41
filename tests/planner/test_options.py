from __future__ import annotations

from dataclasses import replace

import pytest

from presage.clusters.charges import ChargeRule
from presage.clusters.systems import Limits, Partition
from presage.errors import UsageError
from presage.estimators import Sharding, Spread, TrainingWorkload, total
from presage.planner import (
    Assumptions,
    Budget,
    Constraints,
    Counts,
    Option,
    Overheads,
    Plans,
    Stated,
    Variant,
    make_plans,
)
from presage.planner.combining import combine
from presage.planner.crossing import MOST_OPTIONS
from presage.planner.places import matches
from presage.planner.plan import Strategy
from tests.planner.making import CPU, GIB, GPU, HOUR, JOB, LAB, Counting, cloud, exact, plans_for


def option_in(plans: Plans, partition: str) -> Option:
    (found,) = [option for option in plans.options if option.placement.partition.name == partition]
    return found


def test_completion_is_wait_and_run_and_the_cost_follows_the_run() -> None:
    plans = plans_for(
        Stated(None, exact(batch=9, accelerated=2, test=0.5), exact(batch=1, accelerated=26, test=0))
    )
    batch, accelerated = option_in(plans, "batch"), option_in(plans, "accelerated")
    assert batch.completion == Spread.exactly(10 * HOUR)
    assert batch.cost is not None
    assert batch.cost.p50 == pytest.approx(9 * 40 * 0.01)
    assert accelerated.completion == Spread.exactly(28 * HOUR)
    assert accelerated.cost is not None
    assert accelerated.cost.p50 == pytest.approx(2 * (20 * 0.01 + 0.5))  # half the cores come with one GPU


def test_a_run_past_the_limit_is_cascaded_with_its_overheads() -> None:
    costs = Overheads(save_s=100, restart_s=200, warning_s=100)
    plans = plans_for(
        Stated(None, exact(batch=30), exact(batch=2)),
        counts=Counts(gpus=(0,)),
        constraints=Constraints(only=("lab/batch",)),
        assumptions=Assumptions(overheads=costs),
    )
    (option,) = plans.options
    assert (option.fits, option.jobs) == (True, 2)
    assert option.notes == (
        "Memory is not known: nobody stated the memory for lab/batch",
        "30 h > the 24 h limit: would need 2 cascaded jobs",
    )
    assert option.completion == Spread.exactly(32 * HOUR + 300)
    assert option.cost is not None
    assert option.cost.p50 == pytest.approx((30 * HOUR + 300) / HOUR * 0.4)
    plan = plans.plan(Strategy.BEST)
    assert plan is not None
    assert [leg.walltime_s for leg in plan.legs] == [24 * HOUR, pytest.approx((6 * HOUR + 300) * 1.1, abs=60)]
    assert [(leg.after, leg.restarts, leg.saves) for leg in plan.legs] == [(None, False, True), (1, True, False)]
    assert plan.legs[1].submit_s == pytest.approx(24 * HOUR)  # two hours before the first ends at 26 h


def test_without_cascades_the_limit_is_a_no() -> None:
    plans = plans_for(
        Stated(None, exact(batch=30), exact(batch=0)),
        constraints=Constraints(only=("lab/batch",)),
        assumptions=Assumptions(cascades=False),
    )
    assert [reason.words for reason in plans.options[0].reasons] == [
        "30 h > the 24 h limit: would need 2 cascaded jobs"
    ]
    assert plans.plan(Strategy.BEST) is None


def test_what_would_take_too_many_jobs_is_a_no_with_its_reason() -> None:
    plans = plans_for(Stated(None, exact(test=900), exact(test=0)), constraints=Constraints(only=("lab/test",)))
    (reason,) = plans.options[0].reasons
    assert reason.words == "900 h > the 1 h limit, and no 200 cascaded jobs would do it"


def test_a_limit_that_leaves_no_time_to_save_is_a_no_unless_nobody_saves() -> None:
    short = replace(LAB, partitions=(Partition("short", ("cpu",), Limits(max_walltime_s=180)),))
    stated = Stated(None, {"*": Spread.exactly(150)}, {"*": Spread.exactly(0)})
    (option,) = plans_for(stated, short).options
    assert [reason.words for reason in option.reasons] == [
        "2.5 min and 2 min to save > the 3 min limit, which is too short for going on from a checkpoint"
    ]
    (option,) = plans_for(stated, short, assumptions=Assumptions(cascades=False)).options
    assert (option.fits, option.request_s, option.jobs) == (True, 180, 1)


def test_memory_is_judged_carefully_and_asked_for_with_a_margin() -> None:
    wide = Stated(
        Spread(20 * GIB, 26 * GIB, 41 * GIB), exact(batch=1, accelerated=1), exact(batch=0, accelerated=0)
    )
    plans = plans_for(wide)
    gpu = option_in(plans, "accelerated")
    assert [reason.words for reason in gpu.reasons] == ["memory 41 GiB > 29.8 GiB of the GPU v100-32"]
    assert gpu.oom_risk == pytest.approx(wide.memory_bytes.chance_above(32e9) if wide.memory_bytes else None)
    batch = option_in(plans, "batch")
    assert batch.placement.share.memory_bytes == pytest.approx(41 * GIB * 1.1, abs=2)
    assert batch.oom_risk < 0.1
    bold = plans_for(wide, assumptions=Assumptions(confidence=0.5))
    assert option_in(bold, "accelerated").fits
    assert 0.1 < option_in(bold, "accelerated").oom_risk < 0.5


def test_the_risk_of_a_timeout_is_that_of_passing_what_is_asked_for() -> None:
    run = Spread(8 * HOUR, 10 * HOUR, 13 * HOUR)
    plans = plans_for(
        Stated(None, {"lab/batch": run}, exact(batch=0)), constraints=Constraints(only=("lab/batch",))
    )
    (option,) = plans.options
    assert option.request_s == pytest.approx(13 * HOUR * 1.1, abs=60)
    assert option.timeout_risk == pytest.approx(run.chance_above((option.request_s or 0) - 120))
    assert 0 < option.timeout_risk < 0.1


def test_an_unknown_time_is_a_no_and_an_unknown_wait_is_said() -> None:
    plans = make_plans([JOB], [LAB], Counting(without=frozenset({"walltime"})), counts=Counts(gpus=(0, 1)))
    assert {option.reasons[0].code for option in plans.options} == {"unknown-walltime"}
    plans = make_plans([JOB], [LAB], Counting(without=frozenset({"wait"})), counts=Counts(gpus=(0, 1)))
    (option, *_) = plans.options
    assert option.fits
    assert option.wait is None
    assert option.completion == Spread.exactly(HOUR)
    assert "The wait in lab/batch is not known and counts as none" in option.notes


def test_each_distinct_thing_is_estimated_once() -> None:
    counting = Counting()
    twin = replace(
        LAB, partitions=(*LAB.partitions, Partition("late", ("cpu",), Limits(max_walltime_s=24 * HOUR)))
    )
    make_plans([JOB, JOB], [twin], counting, counts=Counts(gpus=(0, 1)))
    assert len(counting.asked) == len(set(counting.asked))
    assert [each for each in counting.asked if each[0] == "memory"] == [
        ("memory", "batch", "cpu"),
        ("memory", "accelerated", "gpu"),
    ]


def test_a_training_is_spread_over_all_devices() -> None:
    variant = Variant(TrainingWorkload("net", ((3,),), samples=100, epochs=1), "batch 32")
    plans = make_plans([variant], [LAB], Counting(), counts=Counts(nodes=(2,), gpus=(2,)))
    workload = option_in(plans, "accelerated").workload
    assert isinstance(workload, TrainingWorkload)
    assert (workload.options.workers, workload.options.sharding) == (4, Sharding.DDP)
    assert [reason.words for reason in option_in(plans, "batch").reasons] == ["the partition has no GPUs"]


def test_counts_are_tried_as_asked() -> None:
    def sizes(counts: Counts) -> list[tuple[str, int, int, int]]:
        plans = make_plans([JOB], [LAB], Counting(), counts=counts, constraints=Constraints(only=("*/[ab]*",)))
        shares = [(option.placement.node_type.name, option.placement.share) for option in plans.options]
        return [(name, share.nodes, share.cores, share.gpus) for name, share in shares]

    assert sizes(Counts()) == [("cpu", 1, 40, 0), ("gpu", 1, 20, 1), ("gpu", 1, 40, 2)]
    assert sizes(Counts(nodes=(1, 2), gpus=(0,), cores=4)) == [
        ("cpu", 1, 4, 0), ("cpu", 2, 4, 0), ("gpu", 1, 4, 0), ("gpu", 2, 4, 0),
    ]  # fmt: skip
    assert sizes(Counts(gpus=(0, 2))) == [("cpu", 1, 40, 0), ("gpu", 1, 40, 2)]
    large = replace(LAB, partitions=(Partition("wide", ("cpu",), Limits(min_nodes=4)),))
    (option,) = make_plans([JOB], [large], Counting()).options
    assert option.placement.share.nodes == 4


def test_too_many_options_and_none_are_refused() -> None:
    with pytest.raises(UsageError, match="combinations"):
        make_plans([JOB] * (MOST_OPTIONS + 1), [LAB], Counting())
    with pytest.raises(UsageError, match="no place"):
        make_plans([JOB], [LAB], Counting(), constraints=Constraints(only=("elsewhere/*",)))


def test_constraints_give_reasons() -> None:
    stated = Stated(None, exact(batch=9, accelerated=2), exact(batch=0, accelerated=26))
    late = plans_for(stated, constraints=Constraints(deadline_s=24 * HOUR))
    assert option_in(late, "batch").fits
    (reason,) = option_in(late, "accelerated").reasons
    assert (reason.code, reason.needed, reason.available) == ("deadline", 28 * HOUR, 24 * HOUR)
    assert reason.words.startswith("done after 28 h (with a chance of 90%) > the deadline in 24 h")
    dear = plans_for(stated, constraints=Constraints(budget=Budget(2.0)))
    assert option_in(dear, "accelerated").fits
    assert option_in(dear, "batch").reasons[0].words == "3.6 USD (with a chance of 90%) > the budget of 2"
    foreign = plans_for(stated, constraints=Constraints(budget=Budget(100, "EUR")))
    assert option_in(foreign, "batch").reasons[0].words == "charged in USD, the budget is in EUR"


def test_a_cloud_offer_counts_transfer_startup_and_both_prices() -> None:
    stated = Stated(None, {"cloud": Spread.exactly(10 * HOUR)})
    assumed = Assumptions(data_bytes=36e9, spot_interruptions_per_h=0.1, checkpoint_every_s=1800)
    plans = plans_for(stated, cloud(), assumptions=assumed)
    firm, spot = plans.options
    assert firm.completion == Spread.exactly(360 + 300 + 10 * HOUR)
    assert firm.cost is not None
    assert firm.cost.p50 == pytest.approx((10 * HOUR + 300) / HOUR * 2 + 36e9 / GIB * 0.1)
    assert spot.placement.spot
    assert spot.run is not None
    assert spot.run.p50 == pytest.approx(10 * HOUR + 1.0 * (300 + 120 + 900))  # one interruption expected
    assert spot.run.p10 == pytest.approx(10 * HOUR)
    assert spot.cost is not None
    assert spot.cost.p50 < firm.cost.p50
    assert [option.placement.spot for option in plans.front] == [False, True]


def test_currencies_have_fronts_of_their_own() -> None:
    other = replace(LAB, name="other", charge=ChargeRule(currency="SU", core_hour=100.0))
    stated = Stated(None, {"*": Spread.exactly(HOUR)}, {"*": Spread.exactly(0)})
    plans = plans_for(stated, LAB, other, constraints=Constraints(only=("*/batch",)))
    assert [option.currency for option in plans.front] == ["USD", "SU"]


@pytest.mark.parametrize(
    ("pattern", "is_named"),
    [
        ("lab", True), ("lab/gpu", True), ("lab/v100", True), ("lab/gpu/v100", True), ("l*/g??", True),
        ("*", True), ("gpu", False), ("lab/cpu", False), ("other/gpu", False),
    ],
)  # fmt: skip
def test_patterns_name_places(pattern: str, is_named: bool) -> None:
    assert matches(pattern, "lab", "gpu", "v100") is is_named


def test_a_wait_is_not_stated_for_a_node_type() -> None:
    assert not matches("lab/v100", "lab", "gpu")


def test_a_sum_combines_as_a_total_and_a_falling_function_turns_around() -> None:
    one, two = Spread(1, 4, 10), Spread(2, 8, 16)
    both = combine(lambda a, b: a + b, one, two)
    assert both.as_dict() == pytest.approx({"p10": 12 - (9 + 36) ** 0.5, "p50": 12, "p90": 12 + (36 + 64) ** 0.5})
    assert both == total([one, two])
    assert combine(lambda a: 20 - a, one) == Spread(10, 16, 19)


def test_node_types_are_those_of_the_partition() -> None:
    assert {option.placement.node_type.name for option in plans_for(Stated()).options} == {CPU.name, GPU.name}
