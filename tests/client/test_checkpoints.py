from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from presage.client import load_checkpoint, save_checkpoint
from presage.errors import InputError, OutputError

NESTED = {
    "state": {0: {"step": 3, "average": np.arange(6.0).reshape(2, 3)}, 1: {"step": 4}},
    "groups": [{"lr": 1e-3, "betas": (0.9, 0.999), "params": [0, 1], "name": "ä'\n", "foreach": None}],
    "empty": np.zeros((0, 3), np.float32),
    "scalar": np.float64(2.5),
}


def test_a_nested_state_comes_back_equal(tmp_path: Path) -> None:
    save_checkpoint(tmp_path, {"epoch": 2}, {"optimizer": NESTED})
    found = load_checkpoint(tmp_path)
    assert found is not None
    state = found.states["optimizer"]
    assert found.position == {"epoch": 2}
    assert state["state"][0]["average"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert state["groups"] == NESTED["groups"]
    assert state["groups"][0]["betas"] == (0.9, 0.999)
    assert state["empty"].shape == (0, 3)
    assert state["scalar"] == 2.5


def test_tensors_keep_their_type_also_those_that_numpy_does_not_have(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    tensors = {
        str(kind): torch.tensor([1.5, -2.0, 0.25]).to(kind)
        for kind in (torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.int64)
    }
    tensors["transposed"] = torch.arange(6.0).reshape(2, 3).T
    save_checkpoint(tmp_path, {}, {"all": tensors})
    found = load_checkpoint(tmp_path)
    assert found is not None
    for name, tensor in tensors.items():
        assert found.states["all"][name].dtype == tensor.dtype
        assert torch.equal(found.states["all"][name], tensor)


def test_a_damaged_file_gives_way_to_the_one_before_it(tmp_path: Path) -> None:
    save_checkpoint(tmp_path, {"epoch": 1}, {"model": {"w": np.ones(3)}})
    latest = save_checkpoint(tmp_path, {"epoch": 2}, {"model": {"w": np.ones(3)}})
    latest.write_bytes(latest.read_bytes()[:20])
    found = load_checkpoint(tmp_path)
    assert found is not None
    assert found.position == {"epoch": 1}


def test_where_all_are_damaged_nothing_begins_anew_silently(tmp_path: Path) -> None:
    save_checkpoint(tmp_path, {}, {}).write_bytes(b"")
    with pytest.raises(InputError, match="None of the 1 checkpoints"):
        load_checkpoint(tmp_path)


def test_only_the_last_two_are_kept_and_nothing_unfinished_is_taken(tmp_path: Path) -> None:
    for epoch in range(5):
        save_checkpoint(tmp_path, {"epoch": epoch}, {})
    (tmp_path / "checkpoint-000009.partial").write_bytes(b"half")
    assert sorted(path.name for path in tmp_path.glob("*.safetensors")) == [
        "checkpoint-000004.safetensors",
        "checkpoint-000005.safetensors",
    ]
    found = load_checkpoint(tmp_path)
    assert found is not None
    assert found.position == {"epoch": 4}


def test_what_cannot_be_held_is_named_by_its_place(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match=r"model\.layers\[1\], a function"):
        save_checkpoint(tmp_path, {}, {"model": {"layers": [1, test_a_nested_state_comes_back_equal]}})
    assert not list(tmp_path.iterdir())


def test_no_folder_means_no_checkpoint(tmp_path: Path) -> None:
    assert load_checkpoint(tmp_path / "nowhere") is None
