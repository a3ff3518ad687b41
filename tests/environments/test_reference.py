"""The reference of the environments against what they are."""

from __future__ import annotations

import re
from pathlib import Path

import gymnasium
import pytest

import presage.environments as environments

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "python" / "environments.md"
NAMES = ("BatchOrder", "Backfill", "SubmitTime", "Placement", "KubeCluster")


def columns_below(heading: str) -> list[str]:
    """Return the names in the first column of the table below a heading."""
    section = PAGE.read_text().partition(f"## {heading}\n")[2].partition("\n## ")[0]
    cells = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    return [name for cell in cells for name in re.findall(r"`(\w+)`", cell)]


@pytest.mark.parametrize(
    ("heading", "columns"),
    [
        ("Columns of BatchOrder and Backfill", environments.BACKFILL_FEATURES),
        ("Columns of SubmitTime", environments.SUBMIT_FEATURES),
        ("Columns of Placement", environments.PLACEMENT_FEATURES),
        ("Columns of KubeCluster", environments.KUBE_FEATURES),
    ],
)
def test_every_column_is_described_in_its_place(heading: str, columns: tuple[str, ...]) -> None:
    assert columns_below(heading) == list(columns)


@pytest.mark.parametrize("name", NAMES)
def test_shapes_are_as_the_table_says(name: str) -> None:
    environment = gymnasium.make(f"presage/{name}-v1")
    row = next(line for line in PAGE.read_text().splitlines() if line.startswith(f"| `presage/{name}-v1` | "))
    shape, actions = (cell.strip() for cell in row.split("|")[2:4])
    observed, chosen = environment.observation_space.shape, environment.action_space
    assert observed is not None
    assert isinstance(chosen, gymnasium.spaces.Discrete)

    assert shape.replace("nodes", str(observed[0])) == str(observed)
    assert actions.partition(":")[0].replace("nodes", str(observed[0])) == str(chosen.n)


@pytest.mark.parametrize("name", NAMES)
def test_many_are_made_by_gymnasium(name: str) -> None:
    many = gymnasium.make_vec(f"presage/{name}-v1", num_envs=3, vectorization_mode="vector_entry_point")
    _, infos = many.reset(seed=[1, 2, 1])
    seen, rewards, *_ = many.step(infos["action_mask"].argmax(1))

    assert (seen[0] == seen[2]).all(), "the same seed gives the same episode"
    assert (seen[0] != seen[1]).any()
    assert rewards[0] == rewards[2]
