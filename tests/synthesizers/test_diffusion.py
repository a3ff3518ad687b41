from __future__ import annotations

import numpy as np
import pytest

from presage.synthesizers import Training
from presage.synthesizers.columns import Category, Columns, JobTable, Number
from presage.testing.traces import make_job, make_trace
from presage.traces import Trace

torch = pytest.importorskip("torch")

from presage.synthesizers.diffusion import (  # noqa: E402 (it needs torch)
    Denoiser,
    Diffusion,
    Settings,
    draw_rows,
    row_loss,
    shares_at,
)

SMALL = {"width": 64, "layers": 2, "batch": 64, "patience": 100}


def make_columns() -> Columns:
    user, size = Category("user", ("u1", "u2", "u3")), Category("cpus", (1.0, 8.0))
    return Columns((user, size), (Number("gap_s", (0.0, 90.0, 420.0)), Number("run_s", (0.0, 60.0, 3600.0))))


def make_network(columns: Columns) -> Denoiser:
    torch.manual_seed(2)
    return Denoiser(columns, Settings(width=16, layers=1)).eval()


def make_habits(jobs: int = 600) -> Trace:
    """Return a log of two users: u1 runs some minutes on 1 processor, u2 some hours on 8."""
    rng = np.random.default_rng(0)
    rows = [
        make_job(
            300 * place,
            5,
            float(rng.integers(60, 300) if place % 2 else rng.integers(3600, 9000)),
            cpus=(8, 1)[place % 2],
            user=("bob", "ann")[place % 2],
        )
        for place in range(jobs)
    ]
    return make_trace(*rows, cpus=64)


def test_row_and_noise_make_one_at_every_time() -> None:
    kept, added = shares_at(torch.linspace(0, 1, 11))
    torch.testing.assert_close(kept**2 + added**2, torch.ones(11))
    assert kept[0] == 1
    assert added[0] == 0
    assert abs(float(kept[-1])) < 1e-6


def test_every_label_has_a_direction_of_the_length_of_noise() -> None:
    columns = make_columns()
    network = make_network(columns)
    codes = torch.tensor([[0, 0], [1, 1], [2, 0]])
    with torch.no_grad():
        rows = network.place(codes, torch.zeros(3, 2))
    assert rows.shape == (3, 2 + 2 * 16)
    # None hides from the noise by growing.
    torch.testing.assert_close(rows[:, 2:18].norm(dim=1), torch.full((3,), 4.0))


def test_a_log_of_numbers_alone_can_be_drawn() -> None:
    jobs = [make_job(60 * place, 0, 10 + place % 50, cpus=4) for place in range(300)]
    model = Diffusion.train(make_trace(*jobs, cpus=64), {**SMALL, "epochs": 1})
    table = model.draw(50, 0, np.random.default_rng(0))
    assert table.codes == {}
    assert ((table.numbers["run_s"] >= 10) & (table.numbers["run_s"] <= 59)).all()


def test_the_loss_of_a_row_is_its_own() -> None:
    columns = make_columns()
    network = make_network(columns)
    codes, scores = torch.tensor([[0, 0], [1, 1], [2, 0]]), torch.randn(3, 2)
    other = codes.clone()
    other[2] = torch.tensor([0, 1])
    with torch.no_grad():
        first, second = (
            row_loss(network, each, scores, torch.Generator().manual_seed(1)) for each in (codes, other)
        )
    torch.testing.assert_close(first[:2], second[:2])
    assert first[2] != second[2]


def test_normal_scores_lead_back_to_their_values() -> None:
    model = Diffusion.train(make_habits(300), {**SMALL, "epochs": 1})
    table = model.columns.encode(make_habits(300))
    codes, scores = model._tensors(table, seed=1)
    again = model._table(scores, codes.numpy())
    assert again.codes["user"].tolist() == table.codes["user"].tolist()
    np.testing.assert_allclose(again.numbers["run_s"], table.numbers["run_s"], atol=1.5)


def test_drawing_depends_on_the_generator_alone() -> None:
    network = make_network(make_columns())
    with torch.no_grad():
        first, second, other = (draw_rows(network, 20, 5, np.random.default_rng(seed)) for seed in (1, 1, 2))
    torch.testing.assert_close(first[0], second[0])
    np.testing.assert_array_equal(first[1], second[1])
    assert not torch.allclose(first[0], other[0])


def test_it_learns_what_belongs_together() -> None:
    model = Diffusion.train(make_habits(), {**SMALL, "epochs": 40}, Training(seed=1))
    table: JobTable = model.draw(400, 0, np.random.default_rng(1))
    jobs = model.columns.decode(table)
    assert set(jobs["user"].to_list()) == {"u1", "u2"}
    assert ((jobs["cpus_req"] == 1) == (jobs["user"] == "u2")).mean() > 0.9
    # Normal scores leave no gap between the two habits, so that rows near the border may fall to either side.
    short, long = (jobs.filter(chosen) for chosen in (jobs["run_s"] < 180, jobs["run_s"] > 6300))
    assert (short["cpus_req"] == 1).mean() > 0.9
    assert (long["cpus_req"] == 8).mean() > 0.9
    assert min(len(short), len(long)) > 40
