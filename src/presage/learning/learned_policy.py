"""A learned policy: who goes next, the guard behind it, where it comes from, and the file it is kept in."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from presage.errors import InputError, UsageError
from presage.policies.queue_decision import order_queue
from presage.policies.queue_scorer import GUARDS, OF_THE_JOB, OF_THE_QUEUE, Guard, QueueScorer
from presage.simulator.guided import Decider
from presage.traces.files import replacing

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from presage.policies.queue_decision import Queue
    from presage.policies.run_forecasts import RunForecasts

FORMAT = 1
SHIPPED = ("default", "index")
"""Policies that come with Presage: the one to use, and the fixed index that it was searched from."""
_ARRAYS = ("weights", "hidden", "out", "attention")


@dataclass(frozen=True)
class LearnedPolicy:
    """An order by forecasts with EASY backfilling by requests, a guard, and a watch over itself."""

    name: str = "index"
    scorer: QueueScorer = field(default_factory=QueueScorer)
    guard: Guard = GUARDS["A"]
    watches: bool = True
    """Whether it goes by requests for as long as the last weeks would have gone better by them."""
    about: dict[str, Any] = field(default_factory=dict)
    """How it was made: method, logs, figures."""

    @property
    def decider(self) -> Decider:
        """What the simulator runs."""
        return Decider(self.scorer, self.guard)

    def order(self, queue: Queue, forecasts: RunForecasts) -> NDArray[np.int64]:
        """Return the places of waiting jobs in the order in which they should go now."""
        return order_queue(self.scorer, self.guard, queue, forecasts)

    def save(self, path: str | Path) -> None:
        """Write one safetensors file with a JSON head; an earlier one is replaced only when all is written."""
        from safetensors.numpy import save

        head = {
            "format": FORMAT, "reads": [*OF_THE_JOB, *OF_THE_QUEUE], "name": self.name,
            "guard": asdict(self.guard), "watches": self.watches, "about": self.about,
        }  # fmt: skip
        tensors = {name: getattr(self.scorer, name) for name in _ARRAYS}
        with replacing(Path(path)) as partial:
            partial.write_bytes(save(tensors, {"presage-policy": json.dumps(head)}))

    @classmethod
    def load(cls, name_or_path: str | Path = "default") -> LearnedPolicy:
        """Return a policy that comes with Presage, or read one. Raises InputError if it is none."""
        if name_or_path == "index":
            return cls(about={"method": "fixed", "says": "an ageing index on forecast run times"})
        if name_or_path in SHIPPED:
            with resources.as_file(
                resources.files("presage.learning") / "shipped" / f"{name_or_path}.safetensors"
            ) as at:
                return cls.load(at)
        path = Path(name_or_path)
        head, tensors = _read(path)
        if head.get("format") != FORMAT or head.get("reads") != [*OF_THE_JOB, *OF_THE_QUEUE]:
            raise InputError(
                f"{path.name} is a policy of another version of Presage",
                expected=f"format {FORMAT} that reads {len(OF_THE_JOB)} numbers of a job",
                remedy="Train it again with `presage policy train`, or use the policy `default`",
            )
        try:
            scorer, guard = QueueScorer(**tensors), Guard(**head["guard"])
            return cls(str(head["name"]), scorer, guard, bool(head["watches"]), dict(head["about"]))
        except (UsageError, KeyError, TypeError, ValueError) as error:
            raise _no_policy(path, error) from None


def _read(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, "numpy") as opened:
            head = dict(json.loads((opened.metadata() or {})["presage-policy"]))
            return head, {name: opened.get_tensor(name) for name in _ARRAYS}
    except FileNotFoundError:
        raise InputError(
            f"There is no policy {str(path)!r}", expected=f"a file, or one of {', '.join(SHIPPED)}"
        ) from None
    except (SafetensorError, KeyError, TypeError, ValueError, OSError) as error:
        raise _no_policy(path, error) from None


def _no_policy(path: Path, why: Exception) -> InputError:
    return InputError(
        f"{path.name} is not a policy of Presage: {why}", expected="a file that `presage policy train` wrote"
    )
