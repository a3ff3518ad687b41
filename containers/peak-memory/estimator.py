"""Memory of a training from the profile of its step, with room for what the profile does not see.

Reads one request of api 1 from standard input, or from PRESAGE_REQUEST where that is set. Writes one answer to
standard output. Standard library only.
"""

from __future__ import annotations

import base64
import gzip
import json
import os
import sys
from typing import Any

NAME, VERSION, QUANTITY = "peak-memory", "1.0.0", "memory"
MIB = 1024 * 1024
GPU_CONTEXT_BYTES = 500 * MIB
"""Held by the driver and the libraries of a process on a GPU."""
PROCESS_BYTES = 280 * MIB
"""Held by an interpreter with its libraries, on a CPU."""
HEADROOM = 1.1
"""For fragments and for steps that are larger than the one that was profiled."""
BAD_REQUEST, UNSUPPORTED = 2, 3


class UnsupportedError(Exception):
    """There is no answer to this request."""


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Return the answer to a request. Raises UnsupportedError; KeyError, TypeError… for what is no request."""
    if request["api"] != 1:
        raise ValueError("this program speaks api 1")
    profile, target = request.get("profile"), request.get("target")
    if request["quantity"] != QUANTITY:
        raise UnsupportedError(f"it estimates {QUANTITY}, not {request['quantity']}")
    if request["workload"]["kind"] != "training":
        raise UnsupportedError("only trainings have a profile of their memory")
    if profile is None:
        raise UnsupportedError("the step of the training was not profiled")
    on_gpu = target is not None and target["share"]["gpus"] > 0
    outside = GPU_CONTEXT_BYTES if on_gpu else PROCESS_BYTES
    least = profile["peak_bytes"] + outside
    likely = max(least, profile["reserved_bytes"] + outside)
    if not 0 <= least <= likely:
        raise UnsupportedError("the profile has a negative peak")
    return {
        "api": 1, "quantity": QUANTITY, "unit": "bytes",
        "p10": float(least), "p50": float(likely), "p90": likely * HEADROOM,
        "basis": "modelled, unverified", "estimator": NAME, "version": VERSION,
        "notes": [f"{HEADROOM - 1:.0%} of headroom is added, and {outside // MIB} MiB for the process itself."],
        "details": {"parts": profile["parts"], "outside_bytes": outside},
    }  # fmt: skip


def read_request() -> Any:
    """Return the request: the one in the variable PRESAGE_REQUEST, else that on standard input."""
    packed = os.environ.get("PRESAGE_REQUEST")
    return json.loads(gzip.decompress(base64.urlsafe_b64decode(packed)) if packed else sys.stdin.buffer.read())


def main() -> int:
    """Answer the request; the exit code says what became of it."""
    try:
        request = read_request()
        found = answer(request)
        json.dump(found, sys.stdout, allow_nan=False)
    except UnsupportedError as refusal:
        json.dump({"api": 1, "unsupported": str(refusal)}, sys.stdout)
        return UNSUPPORTED
    except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError) as error:
        sys.stderr.write(f"bad request: {type(error).__name__}: {error}\n")
        return BAD_REQUEST
    return 0


if __name__ == "__main__":
    sys.exit(main())
