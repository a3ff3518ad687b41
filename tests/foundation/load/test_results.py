from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import pytest

from tests.docs_runner import ROOT


def scores(mae: list[float]) -> dict[str, Any]:
    one = {"mae": mae, "pinball": [0.1, 0.2], "coverage": [0.8, 0.75]}
    return dict.fromkeys(("utilisation", "queue", "work"), one)


def test_the_table_shows_where_presage_loses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "docs" / "_ext")
    generated = importlib.import_module("generated")
    monkeypatch.setattr(generated, "RESULTS", tmp_path)
    assert "No measurement" in generated.load_forecast_results()
    peers = ("persistence", "seasonal-day", "seasonal-week", "ets", "ar")
    site = {
        "site": "Invented", "group": "reported", "tested_origins": 7,
        "models": {"presage": scores([0.1, 0.3])} | {peer: scores([0.2, 0.4]) for peer in peers},
        "waits": {"small": {"jobs": 3, "mae_log": 1.5, "lately_mae_log": 2, "coverage": 1}, "large": {"jobs": 0}},
    }  # fmt: skip
    site["models"]["ets"] = scores([0.2, 0.25])
    document = {
        "version": "0.1.0", "date": "2024-03-04", "machine": {"cores": 2}, "horizons_h": [1, 24], "sites": [site],
    }  # fmt: skip
    (tmp_path / "load_forecast.json").write_text(json.dumps(document))
    shown = generated.load_forecast_results()
    assert "| Invented | reported | 7 | **0.100** (0.200 ar) | 0.300 (0.250 ets) |" in shown
    assert "not better in 3 of 30 comparisons" in shown
    assert "| Invented | reported | queue | 24 h | ets | 0.3000 | 0.2500 | 20.0 % |" in shown
