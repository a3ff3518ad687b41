"""The process that traces: a request as one line of JSON on stdin, an answer as one line on stdout.

A request is `{"workload": …, "device": "cpu" | "gpu", "memory_limit_bytes": …, "folder": …}`; an answer
`{"profile": …}` or `{"error": {"code", "problem", "expected", "remedy"}}`. Names of files are meant in the folder,
another one in each request if need be. What the user's code prints goes to stderr.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import sys
from typing import Any

import torch
from pydantic import TypeAdapter

from presage.errors import PresageError
from presage.estimators.training.sources import load_source
from presage.estimators.training.tracing.step import trace_step
from presage.estimators.workloads import TrainingWorkload

_WORKLOAD = TypeAdapter(TrainingWorkload)
_LONGEST_MESSAGE = 600


def serve() -> None:
    """Answer requests until there are no more."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    torch.set_num_threads(1)
    gc.freeze()  # torch has a million objects that no collection before a step needs to look at
    for line in sys.stdin:
        answers.write(json.dumps(_answer(json.loads(line))) + "\n")
        answers.flush()


def error_document(error: BaseException) -> dict[str, Any]:
    """Return the parts of an error as an answer has them."""
    if isinstance(error, PresageError):
        return {"error": error.as_dict()}
    text = " ".join(str(error).split())[:_LONGEST_MESSAGE]
    if isinstance(error, MemoryError) or "can't allocate memory" in text:
        problem = "The network needs more memory to be built than tracing it may have"
        return {"error": {"code": "input", "problem": problem, "remedy": "Build it without reading weights"}}
    return {"error": {"code": "input", "problem": f"{type(error).__name__} while a step was traced: {text}"}}


def _answer(request: dict[str, Any]) -> dict[str, Any]:
    try:
        os.chdir(request["folder"])
        _limit_memory(int(request["memory_limit_bytes"]))
        workload = _WORKLOAD.validate_python(request["workload"])
        source = load_source(workload.model, workload.inputs, workload.input_kinds)
        profile = trace_step(source, workload.options, on_gpu=request["device"] == "gpu")
        return {"profile": profile.as_dict()}
    except Exception as error:  # noqa: BLE001  (the user's code runs in here, and may raise anything)
        return error_document(error)


def _limit_memory(limit_bytes: int) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    if hard != resource.RLIM_INFINITY:
        limit_bytes = min(limit_bytes, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (limit_bytes, hard))
