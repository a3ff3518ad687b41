"""A database that goes away for a moment: no job suffers, and nothing is submitted twice."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from presage.errors import OutputError
from presage.orchestrator.claims import Change
from presage.orchestrator.jobs import Phase
from presage.orchestrator.store import Store
from tests.orchestrator.conftest import MakeOrder, World


class Flickering(Store):
    """Takes no change at one call of `keep`, before or after it wrote it down."""

    fails_at = 0
    too_late = False

    def keep(self, changes: Sequence[Change], soon_s: float = 0.0) -> list[bool]:
        self.fails_at -= 1
        if self.fails_at == 0 and not self.too_late:
            raise OutputError("the database is away")
        kept = super().keep(changes, soon_s)
        if self.fails_at == 0:
            raise OutputError("the database went away before it answered")
        return kept


@pytest.fixture
def flickering(world: World) -> Flickering:
    store = Flickering(world.store._database, lambda: world.now)
    world.store = store
    world.plane = world.make_plane()
    return store


@pytest.mark.parametrize("too_late", [False, True])
@pytest.mark.parametrize("fails_at", [1, 2, 3])
def test_a_moment_without_a_database_is_nobody_s_trouble(
    world: World, flickering: Flickering, make_order: MakeOrder, tmp_path: Path, fails_at: int, too_late: bool
) -> None:
    jobs = [world.store.add("ann", make_order(run_folder=str(tmp_path / name))) for name in ("one", "two")]
    flickering.fails_at, flickering.too_late = fails_at, too_late
    with pytest.raises(OutputError):
        world.plane.step()
    world.store.release_claims_of(world.plane.name)  # as `run` does before it goes on
    for job in jobs:
        done = world.run_to_the_end(job)
        assert done.phase is Phase.COMPLETED
        assert [len(world.cluster.jobs_of_key(each.key)) for each in done.sub_jobs] == [1]
    assert "not-attended-to" not in {event.kind for event in world.store.events()}


def test_a_plane_outlives_its_database(world: World, flickering: Flickering, make_order: MakeOrder) -> None:
    job = world.store.add("ann", make_order())
    flickering.fails_at = 1
    stop = threading.Event()
    working = threading.Thread(target=world.plane.run, args=(stop, 0.01))
    working.start()
    try:
        for _ in range(500):
            if world.store.get(job.job_id).sub_jobs:
                break
            stop.wait(0.02)
    finally:
        stop.set()
        working.join(20)
    assert [each.cluster_job_id for each in world.store.get(job.job_id).sub_jobs] == ["1"]
