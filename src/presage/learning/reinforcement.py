"""Reinforcement learning of who goes next: PPO with masks (sb3-contrib) on a network of the queue. Needs `rl`.

A training goes in rounds. Each begins with new episodes and a seed of its own, so that a training that was cut off
and goes on from its last round is the one that was not cut off.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from presage.environments import FEATURES
from presage.errors import InputError, MissingDependencyError, UsageError
from presage.learning.observed_rules import RULES, play
from presage.traces.files import replacing

try:
    import torch
    from sb3_contrib import MaskablePPO
    from stable_baselines3.common.logger import Logger

    from presage.foundation.training.checkpoints import load_checkpoint, save_checkpoint
    from presage.learning._machines_for_sb3 import MachinesForSb3, MeasuredOrder, QueuePolicy
    from presage.learning.imitation import imitate, moments_of
    from presage.learning.networks import QueueNetwork, copy_of
except ModuleNotFoundError as missing:
    if missing.name not in ("torch", "stable_baselines3", "sb3_contrib"):
        raise
    raise MissingDependencyError(missing.name, extra="rl", purpose="Learning by reinforcement") from None

if TYPE_CHECKING:
    from collections.abc import Callable

    from presage.environments import Workload
    from presage.learning.observed_rules import Played

FORMAT = 1
HEAD = "presage-ppo"
TOLD = ("entropy_loss", "value_loss", "approx_kl", "explained_variance")
"""What a round tells of its updates; besides it `cost`, that of its episodes in units of `saf+easy`."""


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

    network: QueueNetwork
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
        from safetensors.torch import save

        head = {"format": FORMAT, "reads": FEATURES, "shape": self.network.shape, "about": self.about}
        head |= {"curve": self.curve, "interrupted": self.interrupted}
        with replacing(Path(path)) as partial:
            partial.write_bytes(save(self.network.state_dict(), {HEAD: json.dumps(head)}))

    @classmethod
    def load(cls, path: str | Path) -> TrainedPpo:
        """Read what `save` wrote. Raises InputError for anything else."""
        from safetensors import SafetensorError, safe_open

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
    judge: Callable[[QueueNetwork], dict[str, float]] | None = None,
    progress: Callable[[int, int, dict[str, Any]], None] | None = None,
    folder: Path | None = None,
) -> TrainedPpo:
    """Return a network that has learned on the episodes of a workload.

    It begins as a copy of `start`, else by imitating a rule. `judge` is asked what it thinks of the network before
    the first round and after each. `progress` is told the decisions made and to be made, and the line of the
    curve.

    In `folder` each round leaves `state.safetensors`, from which a later call goes on, and a line in
    `curve.jsonl`; where TensorBoard is installed, also its event files. Ctrl-C ends a training with what the last
    whole round came to. Raises InputError for the folder of another training.
    """
    settings = settings or PpoSettings()
    training = _Training(workload, settings, start, judge, folder)
    interrupted = False
    try:
        if not training.resume():
            training.begin()
        while training.decisions < settings.decisions:
            if progress and training.curve:
                progress(training.decisions, settings.decisions, training.curve[-1])
            training.advance()
    except KeyboardInterrupt:
        interrupted = True
    if progress and training.curve:
        progress(training.decisions, settings.decisions, training.curve[-1])
    return training.result(interrupted)


class _Training:
    """A network between two rounds, and all that the next one needs."""

    def __init__(
        self,
        workload: Workload,
        settings: PpoSettings,
        start: TrainedPpo | None,
        judge: Callable[[QueueNetwork], dict[str, float]] | None,
        folder: Path | None,
    ) -> None:
        torch.set_num_threads(1)  # the products are small
        torch.manual_seed(settings.seed)
        self.settings, self.start, self.judge, self.folder = settings, start, judge, folder
        self.network = QueueNetwork(width=settings.width, heads=settings.heads)
        if start is not None:
            self.network = QueueNetwork(**start.network.shape)
            self.network.load_state_dict(start.network.state_dict())
        self.vector = MeasuredOrder(workload, settings.machines, slots=settings.slots)
        self.model = MaskablePPO(
            QueuePolicy, MachinesForSb3(self.vector), learning_rate=settings.rate, n_steps=settings.steps,
            batch_size=settings.batch, n_epochs=settings.epochs, gamma=settings.discount,
            gae_lambda=settings.decay, ent_coef=settings.entropy, policy_kwargs={"network": self.network},
            device="cpu",
        )  # fmt: skip
        self.model.set_logger(Logger(folder=None, output_formats=[]))
        self.decisions = 0
        self.curve: list[dict[str, Any]] = []
        self.whole = copy_of(self.network.state_dict())
        # Only the very same training may go on from a folder.
        same = {name: value for name, value in asdict(settings).items() if name != "decisions"}
        self.about = {"settings": same, "episode": _marks(workload), "starts_from": start and start.about}
        self.board = _board(folder)

    def begin(self) -> None:
        """Imitate what is to be imitated."""
        rule, line = self.settings.imitate, dict[str, Any]()
        if self.start is None and rule is not None:
            wanted = self.settings
            moments = moments_of(self.vector, rule, wanted.imitated, wanted.seed, wanted.discount)
            alike = imitate(self.network, moments, wanted.passes, wanted.seed)
            line = {"imitated": len(moments), "alike": alike}
        self._note(0, line)

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
        self.folder.mkdir(parents=True, exist_ok=True)
        if not (state := self.folder / "state.safetensors").exists():
            return False
        self.decisions = load_checkpoint(state, self.network, self.model.policy.optimizer, self.about)
        self.curve = [line for line in _read_curve(self.folder) if line["decisions"] <= self.decisions]
        self.whole = copy_of(self.network.state_dict())
        return True

    def _note(self, decisions: int, line: dict[str, Any]) -> None:
        """Keep what a round came to."""
        line = {"decisions": decisions, **line, **(self.judge(self.network) if self.judge else {})}
        self.decisions = decisions
        self.curve.append(line)
        self.whole = copy_of(self.network.state_dict())
        if self.folder is not None:
            with replacing(self.folder / "curve.jsonl") as partial:
                partial.write_text("".join(json.dumps(each) + "\n" for each in self.curve))
            state = self.folder / "state.safetensors"
            save_checkpoint(state, self.network, self.model.policy.optimizer, decisions, self.about)
        if self.board:
            for name, value in line.items():
                if value is not None:
                    self.board.add_scalar(name, value, decisions)
            self.board.flush()

    def result(self, interrupted: bool) -> TrainedPpo:
        """Return the network of the last whole round."""
        self.network.load_state_dict(self.whole)
        if self.board:
            self.board.close()
        about = {"method": "ppo", **self.about, "decisions": self.decisions, "torch": torch.__version__}
        return TrainedPpo(self.network, about, self.curve, interrupted)


def _gather(now: dict[str, Any], ended: list[float]) -> bool:
    """Remember how the episodes went that ended in a step."""
    ended += [info["episode"]["r"] for info in now["infos"] if "episode" in info]
    return True


def _marks(workload: Workload) -> list[int]:
    """Return numbers by which a workload is known again."""
    jobs = workload.draw(np.random.default_rng(0)).jobs
    return [len(jobs), *(int(each.sum()) for each in (jobs.run_ms, jobs.estimate_ms, jobs.processors))]


def _read_curve(folder: Path) -> list[dict[str, Any]]:
    path = folder / "curve.jsonl"
    try:
        return [json.loads(line) for line in path.read_text().splitlines() if line]
    except (OSError, ValueError) as error:
        raise InputError(
            f"{path.name} is not the curve of a training: {error}", remedy="Name another folder to begin anew"
        ) from None


def _board(folder: Path | None) -> Any:
    if folder is None or find_spec("tensorboard") is None:
        return None
    from torch.utils.tensorboard import SummaryWriter

    return SummaryWriter(str(folder))
