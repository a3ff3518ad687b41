"""The store on every kind of database."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from presage.connectors import JobStatus
from presage.database import Database
from presage.errors import UnknownNameError
from presage.orchestrator.actions import Action
from presage.orchestrator.claims import Change, Claim
from presage.orchestrator.jobs import Ending, Order, Phase, Place, Progress, SubJob
from presage.orchestrator.rules import Decision
from presage.orchestrator.store import Store, utc_now
from presage.traces.schema import Outcome
from tests.orchestrator.test_killing import assert_nothing_lost_or_doubled, kill_and_finish

PLACE = Place("sim", walltime_s=600.0)
ORDER = Order("train €", "#!/bin/sh\n", (PLACE,), environment={"A": "it's\n$(x)"})


class Clock:
    """Shows what it was set to."""

    now = datetime(2026, 3, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now

    def pass_s(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)


@pytest.fixture
def clock() -> Clock:
    return Clock()


MakeStore = Callable[..., Store]


@pytest.fixture
def make_store(database_url: str) -> Iterator[MakeStore]:
    """Make stores on one database, each as another process would have it."""
    opened: list[Database] = []

    def make(now: Callable[[], datetime] = utc_now) -> Store:
        opened.append(Database(database_url))
        return Store(opened[-1], now)

    yield make
    for database in opened:
        database.close()


@pytest.fixture
def store(make_store: MakeStore, clock: Clock) -> Store:
    return make_store(clock)


def claim(store: Store, plane: str = "a", lease_s: float = 60) -> Claim:
    (claimed,) = store.claim_jobs(plane, lease_s)
    return claimed


def submitted(store: Store, claimed: Claim, number: int = 1) -> SubJob:
    sub_job = SubJob(number, f"presage-{claimed.job.job_id}-{number}", PLACE, cluster_job_id=str(number))
    job = claimed.job.with_sub_job(sub_job)
    assert store.keep([Change(claimed, job, release_until=claimed.due_at + timedelta(days=1))]) == [True]
    return sub_job


def test_a_job_comes_back_as_it_was_left(store: Store, clock: Clock) -> None:
    added = store.add("ann", ORDER)
    claimed = claim(store)
    assert claimed.job == added
    sub_job = SubJob(1, "k", PLACE, tries=1, tried_at=clock.now, ending=Ending.REFUSED, reason="no\0nul")
    progress = Progress(1.5, 3.0, clock.now, 0.25, 17, 1.5)
    facts = {"wait_s": float("inf"), "done": float("nan"), "sub_jobs": 1}
    decision = Decision("rule", Action.RETRY, "why\0\ud800", facts)
    job = claimed.job.with_sub_job(sub_job).__class__(
        **{**claimed.job.__dict__, "sub_jobs": (sub_job,), "progress": progress, "reason": "half\ud800 a\0 text"}
    )
    events = (("told", {"loss": float("-inf"), "list": [float("nan"), {"a": 1}], "words": "a\0b"}),)
    assert store.keep([Change(claimed, job, decision, events)]) == [True]
    found = store.get(added.job_id)
    assert (found.sub_jobs, found.progress) == ((sub_job,), progress)
    assert (found.order, found.reason) == (ORDER, "half? a� text")
    (kept,) = store.decisions(added.job_id)
    assert kept["facts"] == {"wait_s": None, "done": None, "sub_jobs": 1}
    assert store.events(job_id=added.job_id)[-1].values["list"] == [None, {"a": 1}]


def test_claims_are_exclusive_until_they_end_and_last_longer_with_each_word(store: Store, clock: Clock) -> None:
    store.add("ann", ORDER)
    first = claim(store, lease_s=60)
    assert store.claim_jobs("b", 60) == []
    clock.pass_s(50)
    assert store.keep([Change(first, first.job)]) == [True]
    clock.pass_s(50)
    assert store.claim_jobs("b", 60) == []
    clock.pass_s(20)
    second = claim(store, "b")
    assert store.keep([Change(first, first.job, events=(("wrong", {}),))]) == [False]
    assert store.renew(first, 60) is None
    assert store.renew(second, 60) is not None


def test_a_plane_with_its_clock_behind_takes_and_changes_nothing_of_others(
    store: Store, clock: Clock, make_store: MakeStore
) -> None:
    behind = make_store(lambda: clock.now - timedelta(minutes=5))
    store.add("ann", ORDER)
    assert behind.claim_jobs("behind", 60) == []  # not due by its clock
    held = claim(store)
    clock.pass_s(600)
    (taken,) = behind.claim_jobs("behind", 60)
    assert store.keep([Change(held, held.job)]) == [False]
    assert behind.keep([Change(taken, taken.job)]) == [True]


def test_who_stops_a_job_while_somebody_works_on_it_is_heard(store: Store, clock: Clock) -> None:
    job_id = store.add("ann", ORDER).job_id
    held = claim(store)
    clock.pass_s(1)
    store.stop(job_id)
    assert store.keep([Change(held, held.job, unless_stopped=True)]) == [False]
    assert store.keep([Change(held, held.job, release_until=clock.now + timedelta(days=1))]) == [True]
    assert claim(store).job.phase is Phase.STOPPING


def test_what_a_cluster_says_wakes_a_job_even_while_it_is_held(store: Store, clock: Clock) -> None:
    store.add("ann", ORDER)
    submitted(store, claim(store))
    clock.pass_s(86_400)
    held = claim(store)
    clock.pass_s(1)
    token = store.claim_cluster("sim", "b", 60)
    assert token is not None
    assert store.record_statuses("sim", token, ["1"], {"1": JobStatus("1", Outcome.RUNNING)}) == 1
    store.keep([Change(held, held.job, release_until=clock.now + timedelta(days=1))])
    assert claim(store).job.sub_jobs[0].is_running


def test_an_end_is_not_taken_back_and_misses_are_counted_in_a_row(store: Store, clock: Clock) -> None:
    job_id = store.add("ann", ORDER).job_id
    submitted(store, claim(store))

    def say(*statuses: JobStatus) -> int:
        token = store.claim_cluster("sim", "a", 60)
        assert token is not None
        said = {status.job_id: status for status in statuses}
        return store.record_statuses("sim", token, store.live_on("sim"), said, misses=2)

    assert say() == 0
    assert say() == 1
    assert store.get(job_id).sub_jobs[0].misses == 2
    ended = JobStatus("1", Outcome.FAILED, exit_code=3, walltime_s=float("inf"))
    assert say(ended) == 1
    assert say(JobStatus("1", Outcome.RUNNING)) == 0
    sub_job = store.get(job_id).sub_jobs[0]
    assert sub_job.status is not None
    assert (sub_job.misses, sub_job.status.state, sub_job.status.walltime_s) == (0, Outcome.FAILED, None)
    assert store.record_statuses("sim", "no-token", ["1"], {}) == 0


def test_a_cluster_is_asked_less_and_less_and_soon_again_when_it_gets_a_job(store: Store, clock: Clock) -> None:
    store.add("ann", ORDER)
    submitted(store, claim(store))
    pauses = []
    for _ in range(6):
        token = store.claim_cluster("sim", "a", 60)
        assert token is not None
        store.record_statuses("sim", token, ["1"], {}, pauses_s=(2, 20), misses=100)
        begin = clock.now
        while (token := store.claim_cluster("sim", "a", 60)) is None:
            clock.pass_s(1)
        pauses.append((clock.now - begin).total_seconds())
        store.release_claims_of("a")
    assert pauses == [2, 4, 8, 16, 20, 20]
    token = store.claim_cluster("sim", "a", 60)
    assert token is not None
    store.record_statuses("sim", token, ["1"], {}, pauses_s=(2, 20), misses=100)
    store.add("ann", ORDER)
    held = claim(store)
    sub_job = SubJob(1, "another", PLACE, cluster_job_id="2")
    store.keep([Change(held, held.job.with_sub_job(sub_job))], soon_s=2)
    clock.pass_s(2)
    assert store.claim_cluster("sim", "a", 60) is not None


def test_thousands_are_written_and_woken_at_once(store: Store, clock: Clock) -> None:
    for _ in range(1200):
        store.add("ann", ORDER)
    claims = store.claim_jobs("a", 60, most=2000)
    later = clock.now + timedelta(days=1)
    changes = [
        Change(each, each.job.with_sub_job(SubJob(1, f"k{n}", PLACE, cluster_job_id=str(n))), release_until=later)
        for n, each in enumerate(claims)
    ]
    assert store.keep(changes) == [True] * 1200
    token = store.claim_cluster("sim", "a", 60)
    assert token is not None
    asked = store.live_on("sim")
    said = {job_id: JobStatus(job_id, Outcome.RUNNING) for job_id in asked}
    assert store.record_statuses("sim", token, asked, said) == 1200
    assert {job.state for job in store.jobs(most=5000)} == {"running"}
    assert store.counts() == {"active": 1200}


def test_two_who_claim_at_once_never_get_the_same(make_store: MakeStore) -> None:
    first = make_store()
    for _ in range(60):
        first.add("ann", ORDER)
    taken: list[str] = []
    lock = threading.Lock()

    def work(name: str) -> None:
        mine = make_store()
        while claims := mine.claim_jobs(name, 600, most=3):
            with lock:
                taken.extend(each.job.job_id for each in claims)

    threads = [threading.Thread(target=work, args=(f"p{number}",)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(taken) == len(set(taken)) == 60


def test_jobs_that_are_not_there_are_told(store: Store) -> None:
    for method in (store.get, store.stop):
        with pytest.raises(UnknownNameError):
            method("0" * 12)
    assert store.decisions("0" * 12) == []


@pytest.mark.slow
def test_two_planes_share_a_database_and_may_die(make_store: MakeStore, database_url: str, tmp_path: Path) -> None:
    store = make_store()
    kill_and_finish(store, tmp_path, database_url, jobs=20, kills=4, seed=5, most_s=90)
    assert_nothing_lost_or_doubled(store, tmp_path, 20)
