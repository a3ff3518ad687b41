"""Calls that nobody thought of, made up from the OpenAPI document: never a 5xx, never what is not documented."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable

from presage.service.app import API
from tests.service.conftest import Service

schemathesis = pytest.importorskip("schemathesis")

EXAMPLES = {"ann": 8, "root": 3, "stranger": 2}
STREAM = f"{API}/jobs/events"


def operations(service: Service) -> list[Any]:
    schema = schemathesis.openapi.from_asgi(f"{API}/openapi.json", service.client.app)
    found = [each.ok() for each in schema.get_all_operations()]
    return [each for each in found if each.path != STREAM]  # which never ends


@pytest.mark.parametrize("who", EXAMPLES)
def test_no_call_breaks_the_service(service: Service, who: str) -> None:
    headers = service.headers(who) if who in service.secrets else {}
    object.__setattr__(service.state, "clusters", ())  # so that made-up orders are taken
    found = operations(service)
    assert len(found) >= 22
    for operation in found:
        _call_often(operation, headers, EXAMPLES[who])


def _call_often(operation: Any, headers: dict[str, str], examples: int) -> None:
    from schemathesis import GenerationMode
    from schemathesis.checks import (
        content_type_conformance,
        not_a_server_error,
        response_headers_conformance,
        response_schema_conformance,
        status_code_conformance,
    )

    checks = [
        not_a_server_error,
        status_code_conformance,
        content_type_conformance,
        response_headers_conformance,
        response_schema_conformance,
    ]
    for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):

        @settings(
            max_examples=examples,
            database=None,
            derandomize=True,
            suppress_health_check=list(HealthCheck),
            phases=(Phase.generate,),
        )
        @given(case=operation.as_strategy(generation_mode=mode))
        def call(case: Any) -> None:
            case.headers = {name: each for name, each in (case.headers or {}).items() if name != "Authorization"}
            answer = case.call(headers=headers)
            case.validate_response(answer, checks=checks)

        # A call that takes nothing cannot be made wrong.
        with contextlib.suppress(*([Unsatisfiable] if mode is GenerationMode.NEGATIVE else [])):
            call()
