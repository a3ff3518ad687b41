from __future__ import annotations

import numpy as np
import pytest

from presage.synthesizers import Training
from presage.synthesizers._base import Synthesizer
from presage.synthesizers.columns import Category, Columns, JobTable, Number
from presage.testing.traces import make_job, make_trace
from presage.traces import Trace

torch = pytest.importorskip("torch")

from presage.synthesizers.row_transformer import (  # noqa: E402 (it needs torch)
    Digits,
    RowNetwork,
    RowTransformer,
    Sentences,
    Settings,
    draw_words,
    sentence_loss,
)

SMALL = {"width": 16, "layers": 1, "heads": 2, "batch": 64}


def make_columns() -> Columns:
    user, size = Category("user", ("u1", "u2", "u3")), Category("cpus", (1.0, 8.0))
    return Columns((user, size), (Number("gap_s", (0.0, 90.0, 420.0)), Number("run_s", (0.0, 60.0, 3600.0))))


def make_habits(jobs: int = 600) -> Trace:
    """Return a log of two users: u1 runs a minute on 1 processor, u2 an hour on 8."""
    rows = [
        make_job(300 * place, 5, (60, 3600)[place % 2], cpus=(1, 8)[place % 2], user=("ann", "bob")[place % 2])
        for place in range(jobs)
    ]
    return make_trace(*rows, cpus=64)


def test_a_number_is_written_as_its_digits() -> None:
    digits = Digits.of(Number("run_s", (0.0, 129_655.0)))
    assert digits.sizes() == [2, 10, 10, 10, 10, 10]
    values = np.array([0.0, 7.0, 3600.0, 129_655.0])
    written = digits.write(values)
    assert written.tolist() == [
        [0, 0, 0, 0, 0, 0],
        [0, 0, 0, 0, 0, 7],
        [0, 0, 3, 6, 0, 0],
        [1, 2, 9, 6, 5, 5],
    ]
    assert digits.read(written).tolist() == values.tolist()


def test_fractions_are_kept_to_thousandths_and_greater_values_become_the_greatest() -> None:
    digits = Digits.of(Number("gap_s", (0.0, 31.25), step=0.001))
    assert digits.write(np.array([4.5]))[0].tolist() == [0, 4, 5, 0, 0]
    assert digits.read(digits.write(np.array([12.345, 1e9]))).tolist() == [12.345, 39.999]


def test_a_job_is_read_back_from_its_sentence() -> None:
    sentences = Sentences(make_columns())
    table = JobTable(
        {"user": np.array([2, 0]), "cpus": np.array([1, 0])},
        {"gap_s": np.array([17.0, 420.0]), "run_s": np.array([3600.0, 9.0])},
    )
    words = sentences.write(table)
    assert words[0].tolist() == [0, 1, 7, 2, 1, 3, 6, 0, 0]
    again = sentences.read(words)
    assert {name: values.tolist() for name, values in again.codes.items()} == {"user": [2, 0], "cpus": [1, 0]}
    assert {name: values.tolist() for name, values in again.numbers.items()} == {
        "gap_s": [17.0, 420.0],
        "run_s": [3600.0, 9.0],
    }


def test_no_number_leaves_the_range_of_the_log() -> None:
    sentences = Sentences(make_columns())
    words = np.array([[4, 9, 9, 0, 0, 3, 9, 9, 9]])
    assert sentences.read(words).numbers["gap_s"].tolist() == [420.0]
    assert sentences.read(words).numbers["run_s"].tolist() == [3600.0]


def test_a_word_does_not_see_those_after_it() -> None:
    sentences = Sentences(make_columns())
    torch.manual_seed(3)
    network = RowNetwork(sentences.sizes, Settings(width=16, heads=2)).eval()
    read = torch.randint(0, network.start, (1, len(sentences.sizes)))
    changed = read.clone()
    changed[0, 4] = (changed[0, 4] + 1) % network.start
    with torch.no_grad():
        before, after = network(read), network(changed)
    for place in range(4):
        torch.testing.assert_close(before[place], after[place])
    assert not torch.allclose(before[4], after[4])


def test_word_by_word_with_memory_is_the_same_as_all_at_once() -> None:
    sentences = Sentences(make_columns())
    torch.manual_seed(3)
    network = RowNetwork(sentences.sizes, Settings(width=16, heads=2, layers=2)).eval()
    read = torch.randint(0, network.start, (5, len(sentences.sizes)))
    memories: list[list[torch.Tensor]] = [[] for _ in network.blocks]
    with torch.no_grad():
        whole = network(read)
        for place, expected in enumerate(whole):
            torch.testing.assert_close(network.step(read[:, place], place, memories), expected)


def test_words_are_drawn_as_often_as_they_are_likely() -> None:
    sentences = Sentences(make_columns())
    torch.manual_seed(5)
    network = RowNetwork(sentences.sizes, Settings(width=16, heads=2, layers=1)).eval()
    with torch.no_grad():
        words = draw_words(network, sentences, 20_000, np.random.default_rng(2))
        start = torch.full((1,), network.start)
        expected = torch.softmax(network.step(start, 0, [[] for _ in network.blocks]), 1)[0].numpy()
    shares = np.bincount(words[:, 0], minlength=len(expected)) / len(words)
    # Four standard deviations of a share of 20,000 draws.
    np.testing.assert_allclose(shares, expected, atol=4 * 0.5 / np.sqrt(20_000))


def test_hidden_words_are_neither_read_nor_asked_for() -> None:
    sentences = Sentences(make_columns())
    network = RowNetwork(sentences.sizes, Settings(width=16, heads=2, layers=1)).eval()
    words = torch.zeros((3, len(sentences.sizes)), dtype=torch.int64)
    with torch.no_grad():
        assert sentence_loss(network, words, torch.from_numpy(sentences.offsets), 1.0).tolist() == [0.0] * 3
        assert (sentence_loss(network, words, torch.from_numpy(sentences.offsets)) > 0).all()


def test_it_learns_what_belongs_together() -> None:
    model: Synthesizer = RowTransformer.train(make_habits(), {**SMALL, "epochs": 25}, Training(seed=1))
    jobs = model.columns.decode(model.draw(400, 0, np.random.default_rng(1)))
    habits = set(jobs.select("user", "cpus_req", "run_s").rows())
    often = jobs.filter(
        ((jobs["user"] == "u1") & (jobs["cpus_req"] == 1) & (jobs["run_s"] == 60))
        | ((jobs["user"] == "u2") & (jobs["cpus_req"] == 8) & (jobs["run_s"] == 3600))
    )
    assert {("u1", 1.0, 60.0), ("u2", 8.0, 3600.0)} <= habits
    assert len(often) > 0.9 * len(jobs)


def test_the_record_has_the_learning_curve() -> None:
    model = RowTransformer.train(make_habits(300), {**SMALL, "epochs": 3}, Training(seed=1))
    assert len(model.record["scores"]) == 3
    assert model.record["scores"][-1] < model.record["scores"][0]
    assert model.record["parameters"] == sum(each.numel() for each in model.network.parameters())
