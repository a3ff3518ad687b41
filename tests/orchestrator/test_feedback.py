from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, select

from presage.clusters.charges import ChargeRule
from presage.connectors.simulated import EXIT_CODE, MEMORY, WORK
from presage.database import Database
from presage.errors import InputError, OutputError
from presage.estimators import Basis, Estimate, EstimateRequest, Knowledge, Quantity, Spread
from presage.estimators.asking import ask
from presage.estimators.history.memory import HistoryMemory
from presage.estimators.history.walltime import HistoryWalltime
from presage.estimators.repository import Repository
from presage.estimators.repository._tables import Outcome, StoredPrediction
from presage.estimators.repository.carrying import write_predictions
from presage.estimators.scripts import Script
from presage.estimators.wait.similar import SimilarWait
from presage.orchestrator.bus.embedded import EmbeddedBus
from presage.orchestrator.feedback import READER, FeedBack
from presage.orchestrator.histories import managed_history
from presage.orchestrator.jobs import ManagedJob, OnOutOfMemory, Order, Phase, Place, order_document, parse_order
from presage.testing.estimators import make_target, make_training_request
from presage.traces.schema import Outcome as Ended
from tests.orchestrator.conftest import BEGIN, SCRIPT, MakeOrder, World

GIB = 1 << 30
REQUEST = make_training_request(Quantity.WALLTIME, target=make_target(gpu=None))
MODEL = ask(REQUEST)


@pytest.fixture
def repository(world: World, tmp_path: Path) -> Iterator[Repository]:
    database = Database(f"sqlite:///{tmp_path / 'plane.sqlite'}")
    yield Repository(database, tmp_path / "estimators")
    database.close()


@pytest.fixture
def feedback(repository: Repository) -> FeedBack:
    return FeedBack(repository)


def documents(walltime: Estimate = MODEL, request: EstimateRequest = REQUEST) -> tuple[dict[str, Any], ...]:
    assert request.target is not None
    charged = replace(request.target, charge=ChargeRule(core_hour=0.5))
    others = [
        Estimate(Quantity.MEMORY, Spread.around(2 * GIB, 1.2), Basis.MODELLED, "training-memory", "1"),
        Estimate(Quantity.WAIT, Spread(0, 60, 600), Basis.STATED, "stated-wait", "1"),
        Estimate(Quantity.COST, Spread(1, 2, 3), Basis.MODELLED, "charge", "1"),
    ]
    return write_predictions(request.workload, charged, [walltime, *others])


def take_in(world: World, feedback: FeedBack, after: int = 0) -> int:
    """Have all events since one taken in; returns the last."""
    events = world.store.events(after, most=100_000)
    feedback.handle(events)
    return events[-1].number if events else after


def actuals(repository: Repository, job: ManagedJob) -> dict[str, float]:
    found = repository.predictions.find(job_key=job.job_id, with_outcome=True)
    return {each.quantity.value: each.actual for each in found if each.actual is not None}


def rows(repository: Repository, table: Any) -> int:
    with repository.database.reading() as session:
        return session.scalar(select(func.count()).select_from(table)) or 0


def test_a_chain_settles_what_was_predicted_of_the_whole(
    world: World, make_order: MakeOrder, repository: Repository, feedback: FeedBack
) -> None:
    order = make_order(work_s=1000, walltime_s=600, environment={MEMORY: str(3 * GIB)}, predictions=documents())
    job = world.store.add("ann", order)
    take_in(world, feedback)
    assert actuals(repository, job) == {}
    assert rows(repository, StoredPrediction) == 4
    job = world.run_to_the_end(job)
    assert (job.phase, len(job.sub_jobs)) == (Phase.COMPLETED, 2)
    take_in(world, feedback)
    found = actuals(repository, job)
    assert found["walltime"] == pytest.approx(1000)
    assert found["memory"] == 3 * GIB
    assert found["cost"] == pytest.approx(1000 / 3600 * 8 * 0.5)
    assert 0 <= found["wait"] < 20


def test_the_same_events_twice_make_one_prediction_and_one_outcome(
    world: World, make_order: MakeOrder, repository: Repository, feedback: FeedBack
) -> None:
    job = world.run_to_the_end(world.store.add("ann", make_order(predictions=documents())))
    for _ in range(2):
        take_in(world, feedback)
        take_in(world, FeedBack(repository))
    assert rows(repository, StoredPrediction) == 4
    assert rows(repository, Outcome) == 3  # nobody said what memory it had
    assert actuals(repository, job)["walltime"] == pytest.approx(300)


def test_a_job_that_failed_or_was_stopped_settles_its_wait_alone(
    world: World, make_order: MakeOrder, repository: Repository, feedback: FeedBack
) -> None:
    failing = make_order(predictions=documents(), environment={EXIT_CODE: "3"}, run_folder=None)
    jobs = [world.store.add("ann", order) for order in (failing, make_order(predictions=documents()))]
    world.pass_time(100)
    world.store.stop(jobs[1].job_id)
    ended = [world.run_to_the_end(job) for job in jobs]
    assert [job.phase for job in ended] == [Phase.FAILED, Phase.CANCELLED]
    take_in(world, feedback)
    assert set(actuals(repository, ended[0])) == {"wait"}
    assert set(actuals(repository, ended[1])) == {"wait"}


def test_memory_of_gpus_is_not_what_the_cluster_saw(
    world: World, make_order: MakeOrder, repository: Repository, feedback: FeedBack
) -> None:
    predictions = documents(request=make_training_request(Quantity.WALLTIME))
    order = make_order(predictions=predictions, environment={MEMORY: str(GIB)})
    job = world.run_to_the_end(world.store.add("ann", order))
    take_in(world, feedback)
    assert set(actuals(repository, job)) == {"walltime", "wait", "cost"}


def test_after_twenty_managed_jobs_the_next_estimate_is_right_and_a_crash_changes_nothing(
    world: World, make_order: MakeOrder, repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    work_s = 1.5 * MODEL.spread.p50
    order = make_order(work_s=work_s, walltime_s=2 * work_s, predictions=documents(), run_folder=None)
    jobs = [world.store.add("ann", order) for _ in range(20)]
    while any(world.store.get(job.job_id).phase is not Phase.COMPLETED for job in jobs):
        world.pass_time(work_s, step_s=work_s / 2)
    dying = FeedBack(repository)
    with monkeypatch.context() as patch:
        patch.setattr(type(repository.refits), "_keep", _die)
        with pytest.raises(OutputError):
            take_in(world, dying)
    assert (rows(repository, StoredPrediction), rows(repository, Outcome)) == (80, 60)
    assert repository.refits.all() == []
    for _ in range(2):
        take_in(world, FeedBack(repository))
    (done,) = repository.refits.all()
    assert (done.took_over, done.family) == (True, "example-network 3x224x224 fp32")
    assert (rows(repository, StoredPrediction), rows(repository, Outcome)) == (80, 60)
    answer = ask(REQUEST, repository=repository)
    assert answer.spread.p50 == pytest.approx(work_s, rel=0.1)
    assert answer.notes[-1].startswith("Corrected by what happened to 13 jobs like it")


def _die(*_: Any, **__: Any) -> None:
    raise OutputError("the database went away")


def test_it_works_in_the_background_from_where_it_was(
    world: World, make_order: MakeOrder, repository: Repository
) -> None:
    job = world.run_to_the_end(world.store.add("ann", make_order(predictions=documents())))
    last = world.store.events(most=100_000)[-1].number
    stop = threading.Event()
    thread = threading.Thread(target=FeedBack(repository).run, args=(stop,))
    thread.start()
    bus = EmbeddedBus(repository.database, READER)
    deadline = time.monotonic() + 20
    while bus.position() < last and time.monotonic() < deadline:
        time.sleep(0.02)
    stop.set()
    thread.join(10)
    assert bus.position() == last
    assert actuals(repository, job)["walltime"] == pytest.approx(300)


def test_a_job_that_nothing_can_be_learned_from_does_not_hold_up_the_others(
    world: World,
    make_order: MakeOrder,
    repository: Repository,
    feedback: FeedBack,
    caplog: pytest.LogCaptureFixture,
) -> None:
    broken = world.store.add("ann", make_order(predictions=({"request": "no", "answer": "no"},)))
    good = world.store.add("ann", make_order(predictions=documents()))
    for job in (broken, good):
        world.run_to_the_end(job)
    take_in(world, feedback)
    assert "walltime" in actuals(repository, good)
    assert f"Nothing is learned from job {broken.job_id}" in caplog.text


@pytest.mark.parametrize(
    "predictions",
    [[{}], [{"request": {"api": 1}, "answer": {}}], [{"request": [], "answer": []}], list(documents()) * 3],
)
def test_an_order_with_predictions_that_are_none_is_refused(make_order: MakeOrder, predictions: Any) -> None:
    document = order_document(make_order())
    with pytest.raises(InputError, match="cannot be taken: predictions: "):
        parse_order({**document, "predictions": predictions})
    assert parse_order({**document, "predictions": documents()}).predictions == documents()


def test_an_order_from_before_there_were_predictions_is_read(make_order: MakeOrder) -> None:
    document = order_document(make_order())
    del document["predictions"]
    assert parse_order(document).predictions == ()


def test_the_past_of_managed_jobs_reads_as_a_log(world: World, make_order: MakeOrder) -> None:
    short = make_order(environment={MEMORY: str(2 * GIB)}, place={"memory_bytes": 4 * GIB, "cores": 2, "nodes": 2})
    chained = make_order(work_s=1000, walltime_s=600)
    jobs = [
        world.run_to_the_end(world.store.add(owner, order)) for owner, order in (("ann", short), ("bob", chained))
    ]
    world.store.add("ann", make_order())  # which has not ended
    trace = managed_history(world.store)
    assert len(trace) == 3
    first, saved, rest = trace.jobs.rows(named=True)
    assert (first["user"], first["name"], first["cluster"], first["outcome"]) == (
        "ann",
        "train",
        "sim",
        "completed",
    )
    assert first["job_id"] == f"sim/{jobs[0].sub_jobs[0].cluster_job_id}"
    assert (first["run_s"], first["limit_s"], first["nodes_req"], first["cpus_req"]) == (300, 600, 2, 4)
    assert (first["mem_req_bytes"], first["mem_used_bytes"]) == (8 * GIB, 2 * GIB)
    assert first["end_ms"] - first["start_ms"] == 300_000
    assert (saved["outcome"], saved["status"], saved["kind"]) == (Ended.TIMEOUT, "to-be-continued", None)
    assert (rest["outcome"], rest["kind"], rest["x_managed_job"]) == ("completed", "continuation", jobs[1].job_id)
    assert managed_history(world.store, "bob").jobs["user"].to_list() == ["bob", "bob"]
    assert len(managed_history(world.store, since=BEGIN + timedelta(seconds=1))) == 2
    assert len(managed_history(world.store, cluster="elsewhere")) == 0
    own = managed_history(world.store, "ann", cluster="sim")
    assert own.jobs["job_id"].to_list() == [jobs[0].sub_jobs[0].cluster_job_id]


def test_estimates_of_a_script_learn_from_its_managed_runs(world: World, make_order: MakeOrder) -> None:
    order = make_order(work_s=400, environment={MEMORY: str(3 * GIB)}, place={"partition": None})
    for run in range(3):
        world.run_to_the_end(
            world.store.add("ann", replace(order, environment={**order.environment, WORK: str(400 + run)}))
        )
    world.run_to_the_end(world.store.add("ann", make_order(work_s=1000, walltime_s=600)))
    knowledge = Knowledge(history=managed_history(world.store, "ann", cluster="sim"))
    workload = Script("train", SCRIPT).workload(user="ann")
    walltime = HistoryWalltime(knowledge).estimate(EstimateRequest(Quantity.WALLTIME, workload))
    assert walltime.details["level"] == "same script and arguments"
    assert walltime.details["runs"] == 4  # the rest of the chain, 400 s and a bit, is no run of its own
    memory = HistoryMemory(knowledge).estimate(EstimateRequest(Quantity.MEMORY, workload))
    assert memory.spread.p50 == 3 * GIB
    partition = str(knowledge.history.jobs["partition"][0]) if knowledge.history else ""
    target = replace(make_target(gpu=None), partition=partition)
    assert SimilarWait(knowledge).estimate(EstimateRequest(Quantity.WAIT, workload, target)).details["jobs"] == 5


def test_a_place_that_is_not_the_first_says_nothing_of_what_was_predicted_there(
    world: World, make_order: MakeOrder, repository: Repository, feedback: FeedBack
) -> None:
    order = make_order(
        environment={MEMORY: str(8 * GIB)}, place={"memory_bytes": 4 * GIB, "most_memory_bytes": 4 * GIB},
        on_out_of_memory=OnOutOfMemory.BIGGER_NODE, predictions=documents(),
    )  # fmt: skip
    large = Place("sim", walltime_s=600, memory_bytes=16 * GIB, most_memory_bytes=16 * GIB, nodes=2)
    moved: Order = replace(order, places=(*order.places, large))
    job = world.run_to_the_end(world.store.add("ann", moved))
    assert (job.phase, job.sub_jobs[-1].place.nodes) == (Phase.COMPLETED, 2)
    take_in(world, feedback)
    assert set(actuals(repository, job)) == {"wait"}
