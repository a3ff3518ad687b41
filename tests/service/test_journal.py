"""What is written down, counted and timed: enough to keep it running, and no secrets."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from presage.client.callbacks import TOKEN_VARIABLE
from presage.orchestrator.figures import FIGURES
from presage.service.app import API
from presage.service.calls import REQUEST_ID_HEADER
from presage.service.journal import LogFormat, set_up_journal, without_secrets
from tests.service.conftest import Service

ORDER = {"name": "train", "script": "#!/bin/sh\n", "places": [{"cluster": "sim"}]}


@pytest.fixture
def journal() -> Iterator[io.StringIO]:
    stream = io.StringIO()
    levels = {name: logging.getLogger(name).level for name in ("", "httpx", "httpcore", "alembic")}
    handler = set_up_journal(LogFormat.JSON, stream)
    yield stream
    logging.getLogger().removeHandler(handler)
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)


def lines(journal: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in journal.getvalue().splitlines()]


def test_a_call_is_one_line_with_who_what_and_how_long(service: Service, journal: io.StringIO) -> None:
    made = service.client.post(f"{API}/jobs", json=ORDER, headers=service.headers("ann"))
    job_id = made.json()["job_id"]
    shown = service.client.get(f"{API}/jobs/{job_id}?x=1", headers=service.headers("ann"))
    stranger = service.client.get(f"{API}/jobs")
    calls = [each for each in lines(journal) if each["logger"] == "presage.service.calls"]
    assert [(each["call"], each["status"], each.get("user"), each.get("job_id")) for each in calls] == [
        (f"POST {API}/jobs", 201, "ann", None),
        (f"GET {API}/jobs/{{job_id}}", 200, "ann", job_id),
        (f"GET {API}/jobs", 401, None, None),
    ]
    answers = [made, shown, stranger]
    assert [each["request"] for each in calls] == [each.headers[REQUEST_ID_HEADER] for each in answers]
    assert len({each["request"] for each in calls}) == 3
    assert all(each["took_ms"] >= 0 and each["level"] == "info" for each in calls)


def test_trouble_carries_the_call_that_met_it_and_the_job_that_it_names(
    service: Service, journal: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError(f"no luck with {service.secrets['bob']}")

    monkeypatch.setattr(type(service.state.store), "jobs", broken)
    answer = service.client.get(f"{API}/jobs", headers=service.headers("ann"))
    (trouble,) = [each for each in lines(journal) if each["level"] == "error"]
    assert trouble["request"] == answer.headers[REQUEST_ID_HEADER]
    assert "RuntimeError: no luck with presage_" in trouble["error"]
    logging.getLogger("presage.orchestrator.visits").warning("Job %s: %s", "j0123456789a", "the cluster is away")
    assert lines(journal)[-1]["job_id"] == "j0123456789a"
    assert service.secrets["bob"] not in journal.getvalue()


def test_no_secret_is_in_any_line(service: Service, journal: io.StringIO, tmp_path: Path) -> None:
    logging.getLogger("presage").setLevel(logging.DEBUG)
    order = {**ORDER, "run_folder": str(tmp_path / "run")}
    job_id = service.client.post(f"{API}/jobs", json=order, headers=service.headers("ann")).json()["job_id"]
    own = service.state.store.get(job_id).order.environment[TOKEN_VARIABLE]
    secrets = [*service.secrets.values(), own]
    for secret in secrets:
        headers = {"Authorization": f"Bearer {secret}"}
        for path in (f"/jobs/{secret}", f"/jobs?x={secret}", f"/{secret}", f"/jobs/{job_id}/callbacks"):
            for method in ("GET", "POST"):
                service.client.request(method, API + path, headers=headers, json={"token": secret})
        logging.getLogger("presage.test").warning("Called with %s", headers)
        logging.getLogger("presage.test").error("It is %s", secret)
        logging.getLogger("presage.test").error("No", exc_info=ValueError(secret))
    logging.getLogger("presage").setLevel(logging.NOTSET)
    written = journal.getvalue()
    assert len(written.splitlines()) > 50
    for secret in secrets:
        assert secret not in written
        assert secret.split("_", 2)[-1] not in written


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("postgresql://plane:hunter2@db.example.org/presage", "postgresql://plane:***@db.example.org/presage"),
        ("{'PRESAGE_SERVICE__TOKEN': 'abc'}", "{'PRESAGE_SERVICE__TOKEN': '***'}"),
        ("sasl.password=abc, user=ann", "sasl.password=***, user=ann"),
        ("Job j0123456789a: it ended", "Job j0123456789a: it ended"),
        ("a token of the scope 'admin'", "a token of the scope 'admin'"),
    ],
)
def test_what_looks_like_a_secret_is_struck_out(text: str, expected: str) -> None:
    assert without_secrets(text) == expected


def test_lines_for_people_have_no_secrets_either(service: Service) -> None:
    stream = io.StringIO()
    root = logging.getLogger()
    level = root.level
    handler = set_up_journal(LogFormat.TEXT, stream)
    logging.getLogger("presage.test").warning("Called with %s", service.headers("ann"))
    root.removeHandler(handler)
    root.setLevel(level)
    assert "WARNING presage.test: Called with" in stream.getvalue()
    assert service.secrets["ann"] not in stream.getvalue()


def test_figures_count_calls_by_path_and_what_planes_did(service: Service) -> None:
    FIGURES.add("polls", "sim", 2)
    FIGURES.add("poll_seconds", "sim", 0.5)
    service.client.post(f"{API}/jobs", json=ORDER, headers=service.headers("ann"))
    for number in range(3):
        service.client.get(f"{API}/jobs/j0000000000{number}", headers=service.headers("ann"))
    service.client.get("/made/up")
    service.client.request("BREW", f"{API}/jobs")
    text = service.client.get("/metrics").text
    figures = {
        line.rsplit(" ", 1)[0]: float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line[0] != "#"
    }
    asked = f'presage_http_requests_total{{method="GET",path="{API}/jobs/{{job_id}}",status="404"}}'
    assert figures[asked] == 3
    assert figures[f'presage_http_request_seconds_count{{path="{API}/jobs"}}'] >= 1
    assert figures['presage_plane_polls_total{cluster="sim"}'] >= 2
    assert figures['presage_plane_poll_seconds_total{cluster="sim"}'] >= 0.5
    assert figures['presage_jobs{phase="active"}'] == 1
    assert figures["presage_due_jobs"] == 1
    assert figures["presage_events_total"] == 1
    assert "made" not in text
    assert "BREW" not in text
