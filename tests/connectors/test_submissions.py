from __future__ import annotations

from typing import Any

import pytest

from presage.connectors import CONNECTORS, Connector, Submission
from presage.errors import UnknownNameError, UsageError


@pytest.mark.parametrize(
    "fields",
    [
        {"key": ""},
        {"key": "a b"},
        {"key": "../x"},
        {"key": "k" * 101},
        {"key": "k\n"},
        {"name": " "},
        {"name": "n" * 257},
        {"script": "echo"},
        {"script": "#!/bin/sh\n\0"},
        {"script": "#!" + "x" * 4_000_001},
        {"arguments": ("a\0b",)},
        {"arguments": ("x" * 1_000_000,)},
        {"arguments": ("\ud800",)},
        {"environment": {"A": "\0"}},
        {"environment": {"A B": "1"}},
        {"environment": {"A=B": "1"}},
        {"environment": {"A\n": "1"}},
        {"environment": {"": "1"}},
        {"environment": {"A": "x" * 1_000_000}},
        {"working_directory": "/tmp\0"},
        {"nodes": 0},
        {"cores_per_node": -1},
        {"memory_bytes": 0},
        {"walltime_s": float("nan")},
        {"walltime_s": float("inf")},
        {"gpus_per_node": -1},
        {"signal": "USR1; touch x"},
        {"signal": "NOSUCH"},
        {"signal_before_s": -1.0},
    ],
)
def test_what_no_cluster_can_take_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        Submission(**{"key": "k", "name": "n", "script": "#!/bin/sh\n", **fields})


def test_kinds_are_found_by_name() -> None:
    assert {"local", "slurm"} <= set(CONNECTORS)
    assert all(issubclass(kind, Connector) for kind in CONNECTORS.load_all().values())
    with pytest.raises(UnknownNameError, match="slurm"):
        CONNECTORS.get("slurn")
