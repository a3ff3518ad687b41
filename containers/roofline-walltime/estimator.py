"""Walltime of a training by a plain roofline: what its operators compute and move, over what the device can.

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

NAME, VERSION, QUANTITY = "roofline-walltime", "1.0.0", "walltime"
EFFICIENCY = 0.4
"""Share of the roofline that real steps reach; the factor below is how far they stray from it in 80 % of cases."""
FACTOR = 2.5
PEAKS = {
    "fp32": ("fp32",),
    "tf32": ("tf32", "fp32"),
    "amp-bf16": ("bf16", "fp16", "fp32"),
    "amp-fp16": ("fp16", "bf16", "fp32"),
    "bf16": ("bf16", "fp16", "fp32"),
}
BAD_REQUEST, UNSUPPORTED = 2, 3


class UnsupportedError(Exception):
    """There is no answer to this request."""


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Return the answer to a request. Raises UnsupportedError; KeyError, TypeError… for what is no request."""
    if request["api"] != 1:
        raise ValueError("this program speaks api 1")
    workload, profile, target = request["workload"], request.get("profile"), request.get("target")
    if request["quantity"] != QUANTITY:
        raise UnsupportedError(f"it estimates {QUANTITY}, not {request['quantity']}")
    if workload["kind"] != "training":
        raise UnsupportedError("only trainings have operators to count")
    if profile is None:
        raise UnsupportedError("the step of the training was not profiled")
    steps = steps_of(workload)
    flops_s, bytes_s, device = device_of(target, workload["options"]["precision"])
    bounds = [max(each["flops"] / flops_s, each["bytes"] / bytes_s) for each in profile["classes"].values()]
    roofline_s = sum(bounds)
    median_s = steps * roofline_s / EFFICIENCY
    notes = [f"Roofline of {device} at {EFFICIENCY:.0%} efficiency, which nobody measured there."]
    if workload["options"]["workers"] > 1:
        notes.append("The time that devices take to exchange gradients is not counted.")
    return {
        "api": 1, "quantity": QUANTITY, "unit": "s",
        "p10": median_s / FACTOR, "p50": median_s, "p90": median_s * FACTOR,
        "basis": "modelled, unverified", "estimator": NAME, "version": VERSION, "notes": notes,
        "details": {"steps": steps, "roofline_step_s": roofline_s, "device": device},
    }  # fmt: skip


def steps_of(workload: dict[str, Any]) -> float:
    """Return how often the weights change in the whole training."""
    samples, epochs, options = workload["samples"], workload["epochs"], workload["options"]
    if samples is None or epochs is None:
        raise UnsupportedError("nobody said how many samples and epochs there are")
    together = options["batch"] * options["workers"] * options["accumulation"]
    if together < 1 or samples < 0 or epochs < 0:
        raise UnsupportedError("a training has a batch of at least 1, and no negative samples or epochs")
    return epochs * -(-samples // together)


def device_of(target: dict[str, Any] | None, precision: str) -> tuple[float, float, str]:
    """Return the peak in FLOP/s, the bandwidth in bytes/s and the name of what a step runs on."""
    if target is None:
        raise UnsupportedError("the device is not known")
    gpu, node = target.get("gpu"), target["node_type"]
    if gpu is not None and target["share"]["gpus"] > 0:
        peaks = [gpu["peak_flops"][name] for name in PEAKS[precision] if gpu["peak_flops"].get(name)]
        bandwidth, device = gpu["bandwidth_bytes_s"], gpu["name"]
    else:
        core = node.get("core_gflops")
        peaks = [core * 1e9 * target["share"]["cores"]] if core else []
        bandwidth, device = node.get("memory_bandwidth_bytes_s"), node["name"]
    if not peaks or peaks[0] <= 0 or not bandwidth or bandwidth <= 0:
        raise UnsupportedError(f"peak and bandwidth of {device} are not known")
    return peaks[0], bandwidth, device


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
