from __future__ import annotations

from pathlib import Path

import pytest

SHARED_DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
FIXTURES = Path(__file__).parent / "fixtures" / "traces"


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real traces beside the repository."""
    if not SHARED_DATA.is_dir():
        pytest.skip("the real traces are not on this machine")
    return SHARED_DATA


@pytest.fixture(scope="session")
def fixtures() -> Path:
    """The folder of small invented logs, one per format."""
    return FIXTURES
