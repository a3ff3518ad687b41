"""A leg of a plan as a Job of Kubernetes. Every text in the YAML is quoted."""

from __future__ import annotations

import json
import math
import re
from typing import TYPE_CHECKING, Any

from presage.errors import UsageError
from presage.planner.scripts import job_name, quote, training_settings

if TYPE_CHECKING:
    from presage.planner.plan import Leg, Plan

_MIB = 1 << 20
_LONGEST_NAME = 50
_HIDDEN = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
_MOUNT = "/presage"


def write_job(plan: Plan, leg: Leg, *, image: str, command: tuple[str, ...] = (), claim: str = "") -> str:
    """Return the YAML of one leg: `kubectl apply -f FILE` runs it, a later leg once it is no longer suspended.

    Its time limit and the time to save before it are those of the leg. Checkpoints go to the volume that `claim`
    names, or, without one, to a volume that ends with the pod. Raises UsageError without an image or a command, or
    for text that no command can have.
    """
    words = command or plan.command
    if not words or not image:
        raise UsageError(
            f"A Kubernetes Job needs {'a command' if image else 'an image'}",
            remedy="Name it with --run" if image else "Name it with --image",
        )
    for text in (*words, image, claim, plan.name):
        quote(text)
    document = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": _name(plan, leg), "labels": _labels(plan, leg)},
        "spec": _job(plan, leg, image, words, claim),
    }
    return "---\n" + "".join(f"{line}\n" for line in _yaml(document))


def _job(plan: Plan, leg: Leg, image: str, words: tuple[str, ...], claim: str) -> dict[str, Any]:
    spec: dict[str, Any] = {
        "backoffLimit": 3,
        "activeDeadlineSeconds": math.ceil(leg.walltime_s),
        "suspend": leg.after is not None or leg.takes_over is not None,
        "template": {"metadata": {"labels": _labels(plan, leg)}, "spec": _pod(plan, leg, image, words, claim)},
    }
    if leg.share.nodes > 1:
        spec |= {"completions": leg.share.nodes, "parallelism": leg.share.nodes, "completionMode": "Indexed"}
    return spec


def _pod(plan: Plan, leg: Leg, image: str, words: tuple[str, ...], claim: str) -> dict[str, Any]:
    environment = {
        "PRESAGE_JOB": plan.name,
        "PRESAGE_LEG": str(leg.number),
        "PRESAGE_LEGS": str(len(plan.legs)),
        "PRESAGE_RUN_FOLDER": _MOUNT,
        "PRESAGE_RESUME": "1" if leg.restarts else "0",
        **training_settings(leg),
    }
    amounts: dict[str, Any] = {"cpu": str(leg.share.cores)}
    if leg.share.memory_bytes is not None:
        amounts["memory"] = f"{math.ceil(leg.share.memory_bytes / _MIB)}Mi"
    if leg.share.gpus:
        amounts["nvidia.com/gpu"] = str(leg.share.gpus)
    volume: dict[str, Any] = {"persistentVolumeClaim": {"claimName": claim}} if claim else {"emptyDir": {}}
    return {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": math.ceil(plan.warning_s),
        "containers": [
            {
                "name": "job",
                "image": image,
                # Kubernetes would expand $(NAME) itself.
                "command": [word.replace("$", "$$") for word in words],
                "env": [{"name": name, "value": text.replace("$", "$$")} for name, text in environment.items()],
                "resources": {"requests": amounts, "limits": amounts},
                "volumeMounts": [{"name": "run", "mountPath": _MOUNT}],
            }
        ],
        "volumes": [{"name": "run", **volume}],
    }


def _name(plan: Plan, leg: Leg) -> str:
    base = re.sub(r"[^a-z0-9-]+", "-", job_name(plan).lower())[:_LONGEST_NAME].strip("-") or "presage"
    return f"{base}-{leg.number}"


def _labels(plan: Plan, leg: Leg) -> dict[str, str]:
    return {
        "app.kubernetes.io/managed-by": "presage",
        "presage/job": _name(plan, leg),
        "presage/leg": str(leg.number),
    }


def _yaml(value: Any, indent: int = 0) -> list[str]:
    """Return the lines of a value in block style; texts as JSON has them, which is YAML, too."""
    pad = "  " * indent
    if isinstance(value, dict) and value:
        lines = []
        for key, inner in value.items():
            lines += _entry(f"{pad}{_scalar(key)}:", inner, indent + 1)
        return lines
    if isinstance(value, list) and value:
        return [line for inner in value for line in _item(pad, _yaml(inner, indent + 1))]
    return [pad + _scalar(value)]


def _entry(head: str, inner: Any, indent: int) -> list[str]:
    if isinstance(inner, dict | list) and inner:
        return [head, *_yaml(inner, indent)]
    return [f"{head} {_scalar(inner)}"]


def _item(pad: str, lines: list[str]) -> list[str]:
    return [f"{pad}- {lines[0].strip()}", *lines[1:]]


def _scalar(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    return _HIDDEN.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
