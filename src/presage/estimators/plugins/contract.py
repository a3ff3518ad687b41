"""The one contract of all plug-ins: a request and an answer as JSON documents, checked on both sides.

A program reads the request from standard input and writes the answer to standard output, an HTTP server gets one
by POST and returns the other. `presage.estimators.plugins.manifest` says what a plug-in is; here is what it says.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Discriminator, Field, JsonValue, ValidationError

from presage.errors import InputError
from presage.estimators._base import Basis, Estimate, EstimateRequest, Quantity, UnsupportedError
from presage.estimators.spread import Spread
from presage.estimators.training.profile import StepProfile  # noqa: TC001  (pydantic reads it)
from presage.estimators.workloads import ScriptWorkload, Target, TrainingWorkload

API = 1
"""Grows when a plug-in of today would misunderstand a document of tomorrow."""
MAX_DOCUMENT_BYTES = 4 * 1024 * 1024
"""Of a request or an answer."""

REQUEST_VARIABLE = "PRESAGE_REQUEST"
"""Has the request, gzipped and in URL-safe base64, where an image is run that can be given no standard input."""

EXIT_ANSWER = 0
EXIT_BAD_REQUEST = 2
EXIT_UNSUPPORTED = 3

_MAX_NOTES = 50
_MAX_REASON = 500


class BrokenPluginError(UnsupportedError):
    """A plug-in that should have answered failed; as with any that has no answer, the next one is asked."""

    code = "broken_plugin"


@dataclass(frozen=True)
class _Training(TrainingWorkload):
    kind: Literal["training"] = "training"


@dataclass(frozen=True)
class _Script(ScriptWorkload):
    kind: Literal["script"] = "script"


class _Request(BaseModel):
    # A member that is not known is a mistake of the writer: it would be left out of the estimate in silence.
    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

    api: Literal[1]
    quantity: Quantity
    workload: Annotated[_Training | _Script, Discriminator("kind")]
    target: Target | None = None
    profile: StepProfile | None = None


class _Answer(BaseModel):
    # Members that are not known come from a plug-in that is newer than this package.
    model_config = ConfigDict(extra="ignore", strict=True, allow_inf_nan=False)

    quantity: Quantity
    p10: float
    p50: float
    p90: float
    basis: Basis
    notes: Annotated[list[str], Field(max_length=_MAX_NOTES)] = []
    details: dict[str, JsonValue] = {}


def write_request(request: EstimateRequest) -> bytes:
    """Return the request as the bytes of its JSON document; equal requests give equal bytes.

    Raises InputError for a request that JSON cannot carry: text that is not Unicode, numbers that are not finite,
    more than MAX_DOCUMENT_BYTES.
    """
    try:
        loose = json.dumps(_loose_document(request), allow_nan=False)
    except (ValueError, TypeError, RecursionError) as error:
        raise InputError(f"The request cannot be written as JSON: {error}") from None
    # Through the checks and back, so that 3600 and 3600.0 s, which are equal, are written alike.
    document = _checked(_Request, loose.encode(), "request").model_dump_json().encode()
    if len(document) > MAX_DOCUMENT_BYTES:
        raise InputError(f"The request takes {len(document):,} bytes", expected=f"at most {MAX_DOCUMENT_BYTES:,}")
    return document


def read_request(document: bytes) -> EstimateRequest:
    """Return the request in a JSON document. Raises InputError saying which member is wrong."""
    read = _checked(_Request, document, "request")
    base: type[TrainingWorkload | ScriptWorkload]
    base = TrainingWorkload if isinstance(read.workload, _Training) else ScriptWorkload
    members = {field.name: getattr(read.workload, field.name) for field in fields(base)}
    return EstimateRequest(read.quantity, base(**members), read.target, read.profile)


def write_answer(answer: Estimate) -> bytes:
    """Return the answer as the bytes of its JSON document. Raises InputError if JSON cannot carry its details."""
    try:
        return json.dumps({"api": API, **answer.as_dict()}, allow_nan=False).encode()
    except (ValueError, TypeError, RecursionError) as error:
        raise InputError(f"The answer of {answer.estimator} cannot be written as JSON: {error}") from None


def read_answer(document: bytes, *, quantity: Quantity, estimator: str, version: str) -> Estimate:
    """Return the answer in a JSON document, under the name and version of the plug-in that was asked.

    Raises InputError if it is no answer: a member is missing or of the wrong type, quantiles are out of order or
    not finite, it is about another quantity than the one asked for.
    """
    read = _checked(_Answer, document, "answer")
    if read.quantity is not quantity:
        raise InputError(f"The answer is about {read.quantity.value}", expected=f"one about {quantity.value}")
    try:
        spread = Spread(read.p10, read.p50, read.p90)
        json.dumps(read.details, allow_nan=False)
    except (ValueError, RecursionError) as error:
        raise InputError(f"The answer cannot be used: {error}") from None
    notes = tuple(read.notes)
    return Estimate(quantity, spread, read.basis, estimator, version, notes, dict(read.details))


def write_refusal(reason: str) -> bytes:
    """Return the document of a plug-in that has no answer."""
    return json.dumps({"api": API, "unsupported": reason}).encode()


def read_refusal(*texts: bytes) -> str:
    """Return the reason of the first text that has one: a refusal's document, or the last line of a log."""
    for text in texts:
        try:
            document = json.loads(text)
        except (ValueError, RecursionError):
            lines = text.decode("utf-8", "replace").strip().splitlines()
            reason = lines[-1].strip() if lines else ""
        else:
            reason = str(document.get("unsupported") or "") if isinstance(document, dict) else ""
        if reason:
            return printable(reason)
    return "it gave no reason"


def printable(text: str) -> str:
    """Return what a stranger wrote, fit to be shown: one line, no control characters, not too long."""
    shown = "".join(sign if sign.isprintable() else " " for sign in text)
    return shown if len(shown) <= _MAX_REASON else shown[:_MAX_REASON] + "…"


def _loose_document(request: EstimateRequest) -> dict[str, Any]:
    kind = "training" if isinstance(request.workload, TrainingWorkload) else "script"
    return {
        "api": API,
        "quantity": request.quantity,
        "workload": {"kind": kind, **asdict(request.workload)},
        "target": None if request.target is None else asdict(request.target),
        "profile": None if request.profile is None else asdict(request.profile),
    }


_Model = TypeVar("_Model", _Request, _Answer)


def _checked(model: type[_Model], document: bytes, what: str) -> _Model:
    if len(document) > MAX_DOCUMENT_BYTES:
        raise InputError(f"The {what} takes {len(document):,} bytes", expected=f"at most {MAX_DOCUMENT_BYTES:,}")
    try:
        return model.model_validate_json(document)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"]) or "the document"
        raise InputError(f"The {what} is not as api {API} has it: {place}: {printable(first['msg'])}") from None
