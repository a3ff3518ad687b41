from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from presage.client.events import EVENTS_FILE
from presage.orchestrator.monitoring import read_progress
from presage.orchestrator.store import utc_now
from presage.service.app import API
from presage.service.callbacks import TOKEN_VARIABLE
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


def test_what_a_job_tells_reaches_the_plane(service: Service, tmp_path: Path) -> None:
    job_id, secret = hand_over(service, tmp_path / "run")
    assert tell(service, job_id, secret) == 202
    assert tell(service, job_id, secret, sequence=2, kind="performance", metrics={"loss": 0.5}) == 202
    assert tell(service, job_id, secret, sequence=3, kind="utilization", metrics={"cpu_s": 7.5}) == 202
    progress, told = read_progress(service.state.store.get(job_id))
    assert progress is not None
    assert (progress.done, progress.total) == (3, 10)
    assert ("performance", {"metrics": {"loss": 0.5}}) in told
    lines = (tmp_path / "run" / EVENTS_FILE).read_text().splitlines()
    assert json.loads(lines[2])["cpu_s"] == 7.5


def test_replays_are_refused_also_those_of_an_earlier_sub_job(service: Service, tmp_path: Path) -> None:
    job_id, secret = hand_over(service, tmp_path / "run")
    tries = [(1, 5), (1, 5), (1, 4), (1, 6), (2, 1), (1, 7), (2, 1), (2, 2)]
    statuses = [tell(service, job_id, secret, sub_job=sub, sequence=number) for sub, number in tries]
    assert statuses == [202, 409, 409, 202, 202, 409, 409, 202]
    assert len((tmp_path / "run" / EVENTS_FILE).read_text().splitlines()) == 4


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
    from dataclasses import replace

    from presage.orchestrator.claims import Change
    from presage.orchestrator.jobs import Phase

    job_id, secret = hand_over(service, tmp_path / "run")
    (claim,) = service.state.store.claim_jobs("test", 60)
    ended = replace(claim.job, phase=Phase.COMPLETED)
    service.state.store.keep([Change(claim, ended, release_until=utc_now() + timedelta(days=1))])
    assert tell(service, job_id, secret) == 409


def test_without_a_folder_it_is_said_that_nothing_can_be_kept(service: Service) -> None:
    job_id, secret = hand_over(service, None)
    assert tell(service, job_id, secret) == 409


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
