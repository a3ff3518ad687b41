"""Reinforcement learning of who goes next: PPO with masks (sb3-contrib) on a network of the queue. Needs `rl`.

A training goes in rounds. Each begins with new episodes and a seed of its own, so that a training that was cut off
and goes on from its last round is the one that was not cut off.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from presage.environments import FEATURES
from presage.errors import InputError, UsageError
from presage.learning import _needs
from presage.learning.event_files import make_folder
from presage.learning.observed_rules import RULES, play
from presage.traces.files import replacing

try:
    import torch
    from safetensors import SafetensorError, safe_open
    from safetensors.torch import save
    from sb3_contrib import MaskablePPO
    from stable_baselines3.common.logger import Logger

    from presage.foundation.training.checkpoints import load_checkpoint, save_checkpoint
    from presage.learning._machines_for_sb3 import MachinesForSb3, MeasuredOrder, QueuePolicy
    from presage.learning.imitation import imitate, moments_of
    from presage.learning.networks import ChoosingNetwork, QueueNetwork, copy_of
except ModuleNotFoundError as missing:
    raise _needs.told(missing) from None

if TYPE_CHECKING:
    from collections.abc import Callable

    from presage.environments import Workload
    from presage.learning.event_files import EventFile
    from presage.learning.observed_rules import Played

FORMAT = 1
HEAD = "presage-ppo"
BEST = "best.safetensors"
TOLD = ("entropy_loss", "value_loss", "approx_kl", "explained_variance")
"""What a round tells of its updates; besides it `cost`, that of its episodes in units of their measure."""


@dataclass(frozen=True)
class PpoSettings:
    """How long and how to learn. All but `decisions` belong to a training: one that goes on must have the same."""

    decisions: int = 100_000
    seed: int = 0
    imitate: str | None = "index"
    """The rule to begin with, one of `RULES`; None: to begin with nothing."""
    imitated: int = 8_000
    """Decisions of the rule that are learned from."""
    passes: int = 4
    """How often."""
    machines: int = 16
    slots: int = 64
    steps: int = 128
    """Choices on each machine between two updates of the network."""
    updates: int = 4
    """Updates in a round. A round should be longer than an episode, or the ends of episodes are never seen."""
    batch: int = 256
    epochs: int = 4
    rate: float = 1e-3
    entropy: float = 0.0
    """The price of choosing always the same."""
    discount: float = 0.98
    """How much of the next choice's reward counts: how many jobs are still to come nobody sees, so that what is
    far off is noise."""
    decay: float = 0.95
    """How much of later surprises counts for a choice (lambda of generalised advantages)."""
    width: int = 32
    heads: int = 4

    def __post_init__(self) -> None:
        if self.imitate is not None and self.imitate not in RULES:
            raise UsageError(f"Nobody can imitate {self.imitate!r}", expected=f"one of {', '.join(RULES)}")
        if min(self.decisions, self.machines, self.steps, self.updates, self.batch, self.epochs, self.heads) < 1:
            raise UsageError(
                "A training without decisions or machines learns nothing", expected="at least 1 of each"
            )
        if self.slots < 2 or self.width % self.heads:
            raise UsageError(
                f"{self.slots} slots and {self.heads} heads of a width of {self.width} make no network",
                expected="at least 2 slots, and a width that is a multiple of the heads",
            )

    @property
    def per_round(self) -> int:
        """The decisions of a round."""
        return self.machines * self.steps * self.updates


@dataclass(frozen=True)
class TrainedPpo:
    """A network that chooses, and how it came to be."""

    network: ChoosingNetwork
    about: dict[str, Any] = field(default_factory=dict)
    """Its card: method, settings, decisions, versions, figures."""
    curve: list[dict[str, Any]] = field(default_factory=list)
    """One entry per round; the first is from before the first round."""
    interrupted: bool = False

    def play(self, workload: Workload, episodes: int, *, seed: int = 0) -> Played:
        """Play so many episodes to their ends, always by the highest logit."""
        return play(self.network.choose, workload, episodes, seed=seed, slots=self.about["settings"]["slots"])

    def save(self, path: str | Path) -> None:
        """Write one safetensors file with a JSON head; an earlier one is replaced only when all is written."""
        head = {"format": FORMAT, "reads": FEATURES, "shape": self.network.shape, "about": self.about}
        head |= {"curve": self.curve, "interrupted": self.interrupted}
        with replacing(Path(path)) as partial:
            partial.write_bytes(save(self.network.state_dict(), {HEAD: json.dumps(head)}))

    @classmethod
    def load(cls, path: str | Path) -> TrainedPpo:
        """Read what `save` wrote. Raises InputError for anything else."""
        path = Path(path)
        try:
            with safe_open(path, "pt") as opened:
                head = json.loads((opened.metadata() or {})[HEAD])
                if head["format"] != FORMAT or tuple(head["reads"]) != FEATURES:
                    raise InputError(
                        f"{path.name} was trained with another version of Presage", remedy="Train it again"
                    )
                network = QueueNetwork(**head["shape"])
                network.load_state_dict({name: opened.get_tensor(name) for name in network.state_dict()})
        except FileNotFoundError:
            raise InputError(f"There is no file {str(path)!r}") from None
        except (SafetensorError, KeyError, TypeError, ValueError, RuntimeError, OSError) as error:
            raise InputError(
                f"{path.name} is not a network of Presage: {error}", expected="a file that a training wrote"
            ) from None
        return cls(network, head["about"], head["curve"], head["interrupted"])


def train_ppo(
    workload: Workload,
    settings: PpoSettings | None = None,
    *,
    start: TrainedPpo | None = None,
    judge: Callable[[ChoosingNetwork], dict[str, float]] | None = None,
    progress: Callable[[int, int, dict[str, Any]], None] | None = None,
    folder: Path | None = None,
    log: EventFile | None = None,
) -> TrainedPpo:
    """Return a network that has learned on the episodes of a workload.

    It begins as a copy of `start`, else by imitating a rule. `judge`, `folder` and `log` are those of `Training`,
    `progress` is that of `run_training`. Ctrl-C ends it with what the last whole round came to. Raises InputError
    for the folder of another training.
    """
    settings = settings or PpoSettings()
    torch.set_num_threads(1)  # the products are small
    torch.manual_seed(settings.seed)
    network = QueueNetwork(width=settings.width, heads=settings.heads)
    if start is not None:
        network = QueueNetwork(**start.network.shape)
        network.load_state_dict(start.network.state_dict())
    vector = MeasuredOrder(workload, settings.machines, slots=settings.slots)

    def begin() -> dict[str, Any]:
        if start is not None or settings.imitate is None:
            return {}
        moments = moments_of(vector, settings.imitate, settings.imitated, settings.seed, settings.discount)
        return {"imitated": len(moments), "alike": imitate(network, moments, settings.passes, settings.seed)}

    about = {"settings": as_known(settings), "episode": _marks(workload), "starts_from": start and start.about}
    training = Training(network, vector, settings, about, begin, judge=judge, folder=folder, log=log)
    return run_training(training, settings.decisions, progress)


def as_known(settings: PpoSettings) -> dict[str, Any]:
    """Return the settings by which a training is known again: all but how long it is."""
    return {name: value for name, value in asdict(settings).items() if name != "decisions"}


def run_training(
    training: Training, decisions: int, progress: Callable[[int, int, dict[str, Any]], None] | None = None
) -> TrainedPpo:
    """Learn until so many decisions are made; Ctrl-C ends it with what the last whole round came to.

    `progress` is told the decisions made and to be made, and the line of the curve. Raises InputError if the
    training's folder is that of another one.
    """
    interrupted = False
    try:
        if not training.resume():
            training.begin()
        while training.decisions < decisions:
            if progress and training.curve:
                progress(training.decisions, decisions, training.curve[-1])
            training.advance()
    except KeyboardInterrupt:
        interrupted = True
    if progress and training.curve:
        progress(training.decisions, decisions, training.curve[-1])
    return training.result(interrupted)


class Training:
    """A network between two rounds, and all that the next one needs.

    `about` says which training it is, and `begin` makes the network what it begins as. `judge` is asked what it
    thinks of the network before the first round and after each; the result is the network of the last round, or of
    the round in which `lowest`, a number of the judge, was lowest.

    In `folder` each round leaves `state.safetensors`, from which a later call goes on, a line in `curve.jsonl`,
    and where there is a `lowest` the best network so far. `log` is told the same lines.
    """

    def __init__(
        self,
        network: ChoosingNetwork,
        vector: MeasuredOrder,
        settings: PpoSettings,
        about: dict[str, Any],
        begin: Callable[[], dict[str, Any]],
        *,
        judge: Callable[[ChoosingNetwork], dict[str, float]] | None = None,
        lowest: str | None = None,
        folder: Path | None = None,
        log: EventFile | None = None,
    ) -> None:
        self.network, self.settings, self.about, self._begin = network, settings, about, begin
        self.judge, self.lowest, self.folder, self.log = judge, lowest, folder, log
        self.model = MaskablePPO(
            QueuePolicy, MachinesForSb3(vector), learning_rate=settings.rate, n_steps=settings.steps,
            batch_size=settings.batch, n_epochs=settings.epochs, gamma=settings.discount,
            gae_lambda=settings.decay, ent_coef=settings.entropy, policy_kwargs={"network": network},
            device="cpu",
        )  # fmt: skip
        self.model.set_logger(Logger(folder=None, output_formats=[]))
        self.decisions = 0
        self.curve: list[dict[str, Any]] = []
        self.kept, self.kept_line = copy_of(network.state_dict()), dict[str, Any]()

    def begin(self) -> None:
        """Make the network what it begins as."""
        self._note(0, self._begin())

    def advance(self) -> None:
        """Learn for one round."""
        ended: list[float] = []
        # Drawn for each round, so that going on needs no memory of what was drawn.
        seed = np.random.SeedSequence([self.settings.seed, self.decisions]).generate_state(1)[0] >> 1
        self.model.set_random_seed(int(seed))
        self.model.learn(self.settings.per_round, callback=lambda now, _: _gather(now, ended), log_interval=None)
        told = self.model.logger.name_to_value
        line: dict[str, Any] = {name: float(told[f"train/{name}"]) for name in TOLD}
        line["cost"] = -float(np.mean(ended)) if ended else None
        self._note(self.decisions + self.settings.per_round, line)

    def resume(self) -> bool:
        """Go to where an earlier call was cut off; return whether there was one."""
        if self.folder is None:
            return False
        make_folder(self.folder)
        if not (state := self.folder / "state.safetensors").exists():
            return False
        self.decisions = load_checkpoint(state, self.network, self.model.policy.optimizer, self.about)
        self.curve = _read_curve(self.folder, self.decisions)
        self.kept, self.kept_line = copy_of(self.network.state_dict()), self.curve[-1]
        if self.lowest is not None:
            self.kept, self.kept_line = _read_best(self.folder)
        return True

    def _note(self, decisions: int, line: dict[str, Any]) -> None:
        """Keep what a round came to."""
        line = {"decisions": decisions, **line, **(self.judge(self.network) if self.judge else {})}
        self.decisions = decisions
        self.curve.append(line)
        is_best = self.lowest is None or line[self.lowest] < self.kept_line.get(self.lowest, np.inf)
        if is_best:
            self.kept, self.kept_line = copy_of(self.network.state_dict()), line
        if self.folder is not None:
            if self.lowest is not None and is_best:
                _write_best(self.folder, self.kept, line)
            with replacing(self.folder / "curve.jsonl") as partial:
                partial.write_text("".join(json.dumps(each) + "\n" for each in self.curve))
            state = self.folder / "state.safetensors"
            save_checkpoint(state, self.network, self.model.policy.optimizer, decisions, self.about)
        if self.log is not None:
            self.log.tell(decisions, {name: value for name, value in line.items() if name != "decisions"})

    def result(self, interrupted: bool) -> TrainedPpo:
        """Return the network of the round that is kept."""
        self.network.load_state_dict(self.kept)
        about = {"method": "ppo", **self.about, "decisions": self.decisions, "torch": torch.__version__}
        return TrainedPpo(self.network, about, self.curve, interrupted)


def _gather(now: dict[str, Any], ended: list[float]) -> bool:
    """Remember how the episodes went that ended in a step."""
    ended += [info["episode"]["r"] for info in now["infos"] if "episode" in info]
    return True


def _marks(workload: Workload) -> list[int]:
    """Return numbers by which a workload is known again."""
    episode = workload.draw(np.random.default_rng(0))
    jobs = episode.jobs
    sums = (int(each.sum()) for each in (jobs.submit_ms, jobs.run_ms, jobs.estimate_ms, jobs.processors))
    return [len(jobs), episode.processors, *sums]


def _read_curve(folder: Path, until: int) -> list[dict[str, Any]]:
    """Return the curve of a training up to so many decisions."""
    path = folder / "curve.jsonl"
    try:
        lines = [json.loads(line) for line in path.read_text().splitlines() if line]
        return lines[: [line["decisions"] for line in lines].index(until) + 1]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"{path.name} is not the curve of a training: {error}", remedy="Name another folder to begin anew"
        ) from None


def _write_best(folder: Path, state: dict[str, Any], line: dict[str, Any]) -> None:
    with replacing(folder / BEST) as partial:
        partial.write_bytes(save(state, {HEAD: json.dumps(line)}))


def _read_best(folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the best network of a training so far, and its line of the curve."""
    try:
        with safe_open(folder / BEST, "pt") as opened:
            line = json.loads((opened.metadata() or {})[HEAD])
            return {name: opened.get_tensor(name) for name in opened.keys()}, line  # noqa: SIM118 (no mapping)
    except (SafetensorError, KeyError, ValueError, OSError) as error:
        raise InputError(
            f"{BEST} is not the best network of a training: {error}", remedy="Name another folder to begin anew"
        ) from None
