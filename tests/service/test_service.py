from __future__ import annotations

import base64
import hashlib
from datetime import timedelta
from typing import Any

import pytest

from presage.orchestrator.store import utc_now
from presage.service.app import API
from presage.service.guards import MOST_BODY_BYTES, RateLimit
from presage.service.tokens import Scope
from tests.service.conftest import Service

ORDER = {"name": "train", "script": "#!/bin/sh\n", "places": [{"cluster": "sim"}]}


def hand_over(service: Service, who: str = "ann") -> str:
    made = service.client.post(f"{API}/jobs", json=ORDER, headers=service.headers(who))
    assert made.status_code == 201
    return str(made.json()["job_id"])


# A new parameter of a path must be named here, or all of these tests fail.
PARAMETERS = {"job_id": "j" + "0" * 11, "name": "laptop", "token_id": "0" * 12}


def endpoints(service: Service, **parameters: str) -> list[tuple[str, str, str]]:
    """Return method, path, and path with its parameters filled in, of every endpoint of the API."""
    document = service.client.get(f"{API}/openapi.json").json()
    return [
        (method.upper(), path, path.format(**{**PARAMETERS, **parameters}))
        for path, calls in document["paths"].items()
        for method in calls
        if path.startswith(API)
    ]


def test_strangers_and_ended_tokens_get_nothing_from_any_endpoint(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokens = service.state.tokens
    ended, revoked = tokens.create("ann", Scope.ADMIN, days=1), tokens.create("ann", Scope.ADMIN)
    tokens.revoke(revoked.split("_")[1])
    monkeypatch.setattr(tokens, "_now", lambda: utc_now() + timedelta(days=2))
    found = endpoints(service)
    assert len(found) >= 20
    for method, _, path in found:
        for given in (None, "Bearer nobody", f"Bearer {revoked}", f"Bearer {ended}", f"Basic {ended}"):
            headers = {} if given is None else {"Authorization": given}
            answer = service.client.request(method, path, headers=headers, json={})
            assert answer.status_code == 401, (method, path)
            assert answer.headers["www-authenticate"] == "Bearer"


def test_nothing_but_health_and_the_reference_is_open_to_strangers(service: Service) -> None:
    app: Any = service.client.app
    hidden = {each.path for each in app.routes if not getattr(each, "include_in_schema", True)}
    assert hidden == {f"{API}/docs", f"{API}/openapi.json"}
    document = service.client.get(f"{API}/openapi.json").json()
    assert {path for path in document["paths"] if not path.startswith(API)} == {"/healthz", "/readyz", "/metrics"}


# What every endpoint answers to another user about a job or a token of ann's; None: it has nothing of anybody's in
# it. An endpoint that is new must be entered here.
TO_ANOTHER: dict[tuple[str, str], int | None] = {
    ("POST", "/jobs"): None,
    ("GET", "/jobs"): None,
    ("GET", "/jobs/events"): None,
    ("GET", "/jobs/{job_id}"): 404,
    ("POST", "/jobs/{job_id}/stop"): 404,
    ("GET", "/jobs/{job_id}/decisions"): 404,
    ("GET", "/jobs/{job_id}/events"): 404,
    ("POST", "/jobs/{job_id}/callbacks"): 401,
    ("GET", "/systems"): None,
    ("GET", "/systems/{name}"): None,
    ("POST", "/estimates"): None,
    ("POST", "/plans"): None,
    ("POST", "/forecasts"): None,
    ("POST", "/whatif"): None,
    ("POST", "/anomalies"): None,
    ("GET", "/policies"): None,
    ("GET", "/models"): None,
    ("POST", "/schedule"): None,
    ("POST", "/tokens"): 403,
    ("GET", "/tokens"): 403,
    ("DELETE", "/tokens/{token_id}"): 403,
}
STREAM = ("GET", "/jobs/events")  # which never ends; a test of its own listens to it


def test_every_endpoint_keeps_what_is_another_user_s_to_itself(service: Service) -> None:
    job = hand_over(service, "ann")
    token_id = service.secrets["ann"].split("_")[1]
    found = {
        (method, template.removeprefix(API)): path
        for method, template, path in endpoints(service, job_id=job, token_id=token_id)
    }
    assert set(found) == set(TO_ANOTHER)
    for call, expected in TO_ANOTHER.items():
        if call == STREAM:
            continue
        body = {} if call[0] == "POST" else None
        answer = service.client.request(call[0], found[call], headers=service.headers("bob"), json=body)
        if expected is not None:
            assert answer.status_code == expected, call
        if "{job_id}" not in call[1]:
            assert job not in answer.text, call
        assert service.secrets["ann"] not in answer.text
    assert service.state.store.get(job).phase == "active"
    assert service.state.tokens.check(service.secrets["ann"]) is not None


def test_nobody_sees_or_stops_another_s_job(service: Service) -> None:
    job = hand_over(service, "ann")
    of_jobs = [each for each in endpoints(service, job_id=job) if "{job_id}" in each[1]]
    assert len(of_jobs) >= 5
    for method, template, path in of_jobs:
        as_bob = service.client.request(method, path, headers=service.headers("bob"), json={})
        unknown = service.client.request(
            method, template.format(**PARAMETERS), headers=service.headers("bob"), json={}
        )
        assert as_bob.status_code == unknown.status_code
        assert as_bob.status_code == (401 if path.endswith("/callbacks") else 404), path
        assert as_bob.json()["error"]["code"] == unknown.json()["error"]["code"]
    assert service.state.store.get(job).phase == "active"
    assert service.client.get(f"{API}/jobs?everybody=true", headers=service.headers("bob")).json() == {"jobs": []}
    assert (
        len(service.client.get(f"{API}/jobs?everybody=true", headers=service.headers("olga")).json()["jobs"]) == 1
    )
    assert service.client.get(f"{API}/jobs/{job}", headers=service.headers("olga")).status_code == 200


def test_only_admins_touch_tokens(service: Service) -> None:
    for who, status in (("ann", 403), ("olga", 403), ("root", 200)):
        assert service.client.get(f"{API}/tokens", headers=service.headers(who)).status_code == status
    made = service.client.post(f"{API}/tokens", json={"user": "eve"}, headers=service.headers("root"))
    secret = made.json()["secret"]
    assert service.client.get(f"{API}/jobs", headers={"Authorization": f"Bearer {secret}"}).status_code == 200
    listed = service.client.get(f"{API}/tokens", headers=service.headers("root")).text
    assert secret not in listed
    assert secret.split("_")[1] in listed
    assert (
        service.client.delete(f"{API}/tokens/{secret.split('_')[1]}", headers=service.headers("root")).status_code
        == 204
    )
    assert service.client.get(f"{API}/jobs", headers={"Authorization": f"Bearer {secret}"}).status_code == 401


def test_a_job_can_be_handed_over_looked_at_and_stopped(service: Service) -> None:
    job = hand_over(service)
    shown = service.client.get(f"{API}/jobs/{job}", headers=service.headers("ann")).json()
    assert (shown["state"], shown["order"]["script"]) == ("submitting", ORDER["script"])
    stopped = service.client.post(f"{API}/jobs/{job}/stop", headers=service.headers("ann"))
    assert (stopped.status_code, stopped.json()["state"]) == (202, "stopping")
    events = service.client.get(f"{API}/jobs/{job}/events", headers=service.headers("ann")).json()["events"]
    assert [event["kind"] for event in events] == ["handed-over", "stop-asked"]


@pytest.mark.parametrize(
    "order",
    [
        {},
        {"name": 3},
        {**ORDER, "places": []},
        {**ORDER, "places": [{"cluster": "sim", "nodes": "many"}]},
        [],
        "x",
    ],
)
def test_wrong_orders_are_refused_with_a_reason(service: Service, order: Any) -> None:
    answer = service.client.post(f"{API}/jobs", json=order, headers=service.headers("ann"))
    assert answer.status_code == 422
    assert answer.json()["error"]["problem"]


def test_calls_that_change_something_are_written_down_without_secrets(service: Service) -> None:
    hand_over(service)
    service.client.get(f"{API}/tokens", headers=service.headers("ann"))
    recorded = service.state.tokens.recorded()
    assert [(each["user"], each["call"], each["status"]) for each in recorded] == [
        ("ann", f"GET {API}/tokens", 403),
        ("ann", f"POST {API}/jobs", 201),
    ]


def test_large_bodies_and_fast_callers_are_turned_away(service: Service) -> None:
    large = service.client.post(
        f"{API}/jobs", content=b"x" * (MOST_BODY_BYTES + 1), headers=service.headers("ann")
    )
    assert large.status_code == 413
    parts = (b"x" * 1_000_000 for _ in range(20))  # without a declared length
    assert service.client.post(f"{API}/jobs", content=parts, headers=service.headers("ann")).status_code == 413
    now = [0.0]
    limit = RateLimit(per_s=1, burst=3, clock=lambda: now[0])
    assert [limit.allows("ann") for _ in range(5)] == [True, True, True, False, False]
    assert limit.allows("bob")
    now[0] = 1.0
    assert [limit.allows("ann") for _ in range(2)] == [True, False]


def test_headers_health_metrics_and_the_offline_reference(service: Service) -> None:
    answer = service.client.get("/healthz")
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "default-src 'self'" in answer.headers["content-security-policy"]
    assert service.client.get("/readyz").json() == {"status": "ready"}
    hand_over(service)
    assert 'presage_jobs{phase="active"} 1.0' in service.client.get("/metrics").text
    answer = service.client.get(f"{API}/docs")
    page = answer.text
    style = page.split("<style>")[1].split("</style>")[0]
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert f"style-src 'sha256-{digest}'" in answer.headers["content-security-policy"]
    assert "<script" not in page
    assert f"POST {API}/jobs" in page
    assert "<code>waiting</code> (needed)" in page
    assert "http://" not in page
    assert "https://" not in page


def test_the_stream_tells_of_one_s_own_jobs_alone(service: Service) -> None:
    from presage.service.routers import jobs

    hand_over(service, "bob")
    job = hand_over(service, "ann")

    class Listening:
        async def is_disconnected(self) -> bool:
            return False

    async def first() -> str:
        caller = service.state.tokens.check(service.secrets["ann"])
        assert caller is not None
        stream: Any = jobs._events(caller, service.state, Listening(), 0)  # type: ignore[arg-type]
        return str(await anext(stream))

    import asyncio

    told = asyncio.run(first())
    assert job in told
    assert "event: handed-over" in told
