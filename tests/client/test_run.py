from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
from pathlib import Path
from typing import Any

import pytest

from presage.client import EXIT_TO_BE_CONTINUED, read_events, track
from presage.errors import InputError, UsageError


class Counter:
    """The smallest thing that learns."""

    def __init__(self) -> None:
        self.seen: list[int] = []

    def state_dict(self) -> Any:
        return {"seen": list(self.seen)}

    def load_state_dict(self, state: Any) -> None:
        self.seen = state["seen"]


@pytest.fixture(autouse=True)
def _signals_as_before() -> Any:
    before = signal.getsignal(signal.SIGUSR1)
    yield
    signal.signal(signal.SIGUSR1, before)


def test_a_second_job_does_the_epochs_that_the_first_did_not(tmp_path: Path) -> None:
    first, second = Counter(), Counter()

    def learn_until_told() -> None:
        for epoch in track(5, folder=tmp_path, model=first):
            first.seen.append(epoch)
            if epoch == 2:
                os.kill(os.getpid(), signal.SIGUSR1)

    with pytest.raises(SystemExit) as stop:
        learn_until_told()
    assert stop.value.code == EXIT_TO_BE_CONTINUED
    run = track(5, folder=tmp_path, model=second)
    for epoch in run:
        second.seen.append(epoch)
    assert second.seen == [0, 1, 2, 3, 4]
    assert track(5, folder=tmp_path, model=Counter()).epoch == 5


def test_a_signal_between_batches_loses_none_and_repeats_none(tmp_path: Path) -> None:
    def learn(model: Counter, stop_at: int | None) -> None:
        run = track(2, folder=tmp_path, model=model)
        for epoch in run:
            for batch in run.batches(range(4)):
                model.seen.append(10 * epoch + batch)
                if len(model.seen) == stop_at:
                    os.kill(os.getpid(), signal.SIGUSR1)

    for stop_at in (3, 4, 6):  # within an epoch, with the last batch of one, and again
        with pytest.raises(SystemExit):
            learn(Counter(), stop_at)
    last = Counter()
    learn(last, None)
    assert last.seen == [0, 1, 2, 3, 10, 11, 12, 13]


def test_checkpoints_come_as_often_as_asked(tmp_path: Path) -> None:
    for _ in track(3, folder=tmp_path, every_s=0, model=Counter()):
        pass
    kinds = [event.kind for event, _ in read_events(tmp_path / "events.jsonl")]
    assert kinds.count("checkpoint") == 3
    assert (kinds[0], kinds[-1]) == ("started", "finished")


def test_progress_and_metrics_are_told_as_json(tmp_path: Path) -> None:
    run = track(4, folder=tmp_path, model=Counter())
    for epoch in run:
        run.report(loss=1.0 / (epoch + 1), broken=float("nan"))
    events = [event for event, _ in read_events(tmp_path / "events.jsonl")]
    done = [event.values["done"] for event in events if event.kind == "progress"]
    metrics = [event.values["metrics"] for event in events if event.kind == "performance"]
    assert done == [1, 2, 3, 4]
    assert metrics[1] == {"loss": 0.5, "broken": None}
    assert all(event.values["max_rss_bytes"] > 1e6 for event in events if event.kind == "utilization")


def test_events_are_read_on_from_where_one_stopped(tmp_path: Path) -> None:
    file = tmp_path / "events.jsonl"
    run = track(2, folder=tmp_path, model=Counter())
    *_, (_, offset) = read_events(file)
    run.report(loss=1)
    with file.open("ab") as out:
        out.write(b'not json\n{"half": ')
    assert [event.kind for event, _ in read_events(file, offset)] == ["performance"]


def test_another_training_is_not_taken_for_this_one(tmp_path: Path) -> None:
    track(1, folder=tmp_path, model=Counter()).save()
    with pytest.raises(InputError, match="has model, and this training has model, optimizer"):
        track(1, folder=tmp_path, model=Counter(), optimizer=Counter())


def test_only_one_process_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "1")
    for _ in track(1, folder=tmp_path, model=Counter()):
        pass
    assert not list(tmp_path.iterdir())


def test_a_training_that_cannot_tell_goes_on(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "events.jsonl").mkdir()
    assert list(track(2, folder=tmp_path, model=Counter())) == [0, 1]
    assert len(caplog.records) == 1


def test_it_works_in_a_thread_where_signals_cannot_be_asked_for(tmp_path: Path) -> None:
    given: list[int] = []
    thread = threading.Thread(target=lambda: given.extend(track(2, folder=tmp_path, model=Counter())))
    thread.start()
    thread.join()
    assert given == [0, 1]


def test_no_epochs_is_a_mistake(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="0 epochs"):
        track(0, folder=tmp_path)


def test_the_client_needs_no_other_room() -> None:
    code = "import sys, presage.client; print(*[m for m in sys.modules if m.startswith('presage.')])"
    loaded = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    ).stdout.split()
    assert {name.split(".")[1] for name in loaded} == {"client", "errors"}


@pytest.mark.slow
def test_a_distributed_training_stops_as_one(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    script = tmp_path / "train.py"
    script.write_text(
        textwrap.dedent(
            """
            import os, signal, sys
            import torch.distributed as dist
            from presage.client import track

            class Nothing:
                def state_dict(self): return {}
                def load_state_dict(self, state): pass

            rank = int(os.environ["RANK"])
            place = f"file://{sys.argv[1]}/rendezvous"
            dist.init_process_group("gloo", init_method=place, rank=rank, world_size=2)
            run = track(3, folder=sys.argv[1], model=Nothing())
            for epoch in run:
                for batch in run.batches(range(5)):
                    if rank == 1 and epoch == 1 and batch == 2:
                        os.kill(os.getpid(), signal.SIGUSR1)
            """
        )
    )
    processes = [
        subprocess.Popen([sys.executable, str(script), str(tmp_path)], env={**os.environ, "RANK": str(rank)})
        for rank in (0, 1)
    ]
    try:
        assert [process.wait(60) for process in processes] == [EXIT_TO_BE_CONTINUED] * 2
    finally:
        for process in processes:
            process.kill()
    events = [event for event, _ in read_events(tmp_path / "events.jsonl")]
    assert events[-1].kind == "checkpoint"
    assert events[-1].values["done"] == pytest.approx(1.6)
