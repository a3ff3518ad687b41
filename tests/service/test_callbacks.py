from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from presage.client.callbacks import TOKEN_VARIABLE
from presage.client.events import EVENTS_FILE, EventFile
from presage.orchestrator.claims import Change
from presage.orchestrator.jobs import Phase, Progress
from presage.orchestrator.monitoring import read_progress
from presage.orchestrator.store import utc_now
from presage.service.app import API
from tests.service.conftest import Service

PROGRESS = {"sub_job": 1, "sequence": 1, "kind": "progress", "done": 3, "total": 10, "unit": "epochs"}


def hand_over(service: Service, folder: Path | None) -> tuple[str, str]:
    """Return the id of a new job of ann's, and the secret that its environment has."""
    order: dict[str, Any] = {"name": "train", "script": "#!/bin/sh\n", "places": [{"cluster": "sim"}]}
    if folder is not None:
        order["run_folder"] = str(folder)
    made = service.client.post(f"{API}/jobs", json=order, headers=service.headers("ann"))
    job_id = str(made.json()["job_id"])
    return job_id, service.state.store.get(job_id).order.environment[TOKEN_VARIABLE]


def tell(service: Service, job_id: str, secret: str, **changes: Any) -> int:
    answer = service.client.post(
        f"{API}/jobs/{job_id}/callbacks",
        json={**PROGRESS, **changes},
        headers={"Authorization": f"Bearer {secret}"},
    )
    return answer.status_code


def look(service: Service, job_id: str) -> tuple[Progress, list[tuple[str, dict[str, Any]]]]:
    """Look at a job as the plane does, and keep what was learned; returns it and what was told."""
    (claim,) = [each for each in service.state.store.claim_jobs("test", 60) if each.job.job_id == job_id]
    progress, told = read_progress(claim.job, service.state.store.messages(claim.job))
    assert progress is not None
    kept = Change(claim, replace(claim.job, progress=progress), release_until=utc_now())
    assert service.state.store.keep([kept]) == [True]
    return progress, told


def test_what_a_job_tells_reaches_the_plane_once(service: Service, tmp_path: Path) -> None:
    for folder in (tmp_path / "run", None):  # also one that has no folder, or one that only its cluster sees
        job_id, secret = hand_over(service, folder)
        assert tell(service, job_id, secret) == 202
        assert tell(service, job_id, secret, sequence=2, kind="performance", metrics={"loss": 0.5}) == 202
        assert tell(service, job_id, secret, sequence=3, kind="utilization", metrics={"cores": 7.5}) == 202
        progress, told = look(service, job_id)
        assert (progress.done, progress.total) == (3, 10)
        assert ("performance", {"metrics": {"loss": 0.5}}) in told
        assert ("utilization", {"cores": 7.5}) in told
        assert (progress.metrics, progress.utilization) == ({"loss": 0.5}, {"cores": 7.5})
        assert look(service, job_id) == (progress, [])
        assert tell(service, job_id, secret, sequence=4, done=9) == 202
        assert look(service, job_id)[0].done == 9
        shown = service.client.get(f"{API}/jobs/{job_id}", headers=service.headers("ann")).json()
        assert (shown["metrics"], shown["utilization"]) == ({"loss": 0.5}, {"cores": 7.5})


@pytest.mark.parametrize("first", ["file", "network"])
def test_the_same_by_file_and_network_counts_once(service: Service, tmp_path: Path, first: str) -> None:
    job_id, secret = hand_over(service, tmp_path / "run")
    file = EventFile(tmp_path / "run" / EVENTS_FILE)
    told: list[tuple[str, dict[str, Any]]] = []

    def by_file() -> None:
        for number in (1, 2, 3):
            file.tell("performance", sub_job=1, sequence=10 + number, metrics={"loss": number})
        file.tell("progress", sub_job=1, sequence=14, done=3, total=10)
        told.extend(look(service, job_id)[1])

    def by_network() -> None:  # the second of them got lost, and a fifth is not in the file yet
        for number in (1, 3):
            tell(service, job_id, secret, sequence=10 + number, kind="performance", metrics={"loss": number})
        assert tell(service, job_id, secret, sequence=15, done=4) == 202
        told.extend(look(service, job_id)[1])

    for way in (by_file, by_network) if first == "file" else (by_network, by_file):
        way()
    losses = [values["metrics"]["loss"] for kind, values in told if kind == "performance"]
    assert sorted(losses) == [1, 2, 3]
    file.tell("progress", sub_job=1, sequence=15, done=4, total=10)
    progress, again = look(service, job_id)
    assert progress.done == 4  # also where an older number came later, by the other way
    assert again == []


def test_a_backlog_of_progress_does_not_look_like_speed(service: Service) -> None:
    job_id, secret = hand_over(service, None)
    for minute in range(1, 4):
        at = f"2026-03-01T10:0{minute}:00+01:00"
        assert tell(service, job_id, secret, sequence=minute, done=minute, time=at, elapsed_s=60 * minute) == 202
    assert look(service, job_id)[0].per_s == pytest.approx(1 / 60)


def test_replays_are_refused_also_those_of_an_earlier_sub_job(service: Service, tmp_path: Path) -> None:
    job_id, secret = hand_over(service, tmp_path / "run")
    tries = [(1, 5), (1, 5), (1, 4), (1, 6), (2, 1), (1, 7), (2, 1), (2, 2)]
    statuses = [tell(service, job_id, secret, sub_job=sub, sequence=number) for sub, number in tries]
    assert statuses == [202, 409, 409, 202, 202, 409, 409, 202]
    assert len(service.state.store.messages(service.state.store.get(job_id))) == 4


def test_a_job_that_nobody_looks_at_fills_no_database(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("presage.service.callbacks.MOST_UNREAD", 3)
    job_id, secret = hand_over(service, None)
    assert [tell(service, job_id, secret, sequence=number) for number in (1, 2, 3, 4)] == [202, 202, 202, 429]
    look(service, job_id)
    assert tell(service, job_id, secret, sequence=4) == 202
    assert look(service, job_id)[0].message > 3


def test_figures_named_like_parts_of_an_event_are_none(service: Service) -> None:
    job_id, secret = hand_over(service, None)
    figures = {"kind": "finished", "time": "never", "sub_job": 7, "sequence": 0, "cores": 2}
    assert tell(service, job_id, secret, kind="utilization", metrics=figures) == 202
    progress, told = look(service, job_id)
    assert (progress.utilization, progress.heard, told) == ({"cores": 2}, ((1, 1, 1),), [])


def test_only_the_job_itself_speaks_for_it(service: Service, tmp_path: Path) -> None:
    job_id, secret = hand_over(service, tmp_path / "a")
    _, other = hand_over(service, tmp_path / "b")
    assert tell(service, job_id, other) == 401
    assert tell(service, job_id, secret[:-1]) == 401
    assert tell(service, job_id, service.secrets["ann"]) == 401  # her own token is not the job's
    assert tell(service, "j" + "0" * 11, secret) == 401
    # And the job's token opens nothing else.
    mine = {"Authorization": f"Bearer {secret}"}
    assert service.client.get(f"{API}/jobs", headers=mine).status_code == 401
    assert not (tmp_path / "a").exists()


def test_a_job_that_has_ended_has_nothing_to_tell(service: Service, tmp_path: Path) -> None:
    job_id, secret = hand_over(service, tmp_path / "run")
    assert tell(service, job_id, secret) == 202
    (claim,) = service.state.store.claim_jobs("test", 60)
    ended = replace(claim.job, phase=Phase.COMPLETED)
    service.state.store.keep([Change(claim, ended, release_until=utc_now() + timedelta(days=1))])
    assert tell(service, job_id, secret, sequence=2) == 409
    assert service.state.store.backlog().messages == 0


@pytest.mark.parametrize(
    "changes",
    [
        {"done": None},
        {"total": 0},
        {"sequence": 0},
        {"sequence": 2**63},
        {"kind": "finished"},  # which would end the job
        {"kind": "performance"},
        {"kind": "performance", "metrics": {"x": "y" * 2000}},
        {"kind": "performance", "metrics": {str(number): 1 for number in range(200)}},
        {"offset": 3},
        {"time": "2026-03-01T10:00:00"},  # nobody knows of which zone
        {"elapsed_s": -1},
    ],
)
def test_wrong_messages_are_refused(service: Service, tmp_path: Path, changes: dict[str, Any]) -> None:
    job_id, secret = hand_over(service, tmp_path / "run")
    assert tell(service, job_id, secret, **changes) == 422


def test_nobody_is_shown_the_secret_and_its_digest_alone_is_with_the_callbacks(
    service: Service, tmp_path: Path
) -> None:
    from presage.service.tables import CallbackRow

    job_id, secret = hand_over(service, tmp_path / "run")
    for path in ("", "/events", "/decisions"):
        for who in ("ann", "olga"):
            shown = service.client.get(f"{API}/jobs/{job_id}{path}", headers=service.headers(who))
            assert shown.status_code == 200
            assert secret not in shown.text
    with service.state.callbacks._database.reading() as session:
        row = session.get(CallbackRow, job_id)
    assert row is not None
    assert secret not in row.digest
