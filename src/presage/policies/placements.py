"""Rules that say where the members of a job go, and whole policies for jobs that are placed on nodes.

Every member of a job takes processors, memory, and either whole GPUs or a share of one GPU of a single node.
Members are placed one after the other, each seeing what the ones before it took. Ties go to the node that comes
first in the list of nodes. A share goes to the GPU of the node with the least left that is enough, unless the rule
says otherwise; whole GPUs are the first free ones.

"Free share" below is the free amount of a resource as a share of the largest node's, processors, memory and GPUs
together, so that nodes of different sizes compare.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from presage.errors import UsageError
from presage.policies.orders import ORDERS
from presage.registry import Registry, Spec


class Placement(IntEnum):
    """Which of the nodes that have room is taken; the number is the engine's code."""

    FIRST_FIT = 0
    """The first in the list."""
    BEST_FIT = 1
    """The one with the least free share, so that the large gaps stay."""
    WORST_FIT = 2
    """The one with the largest free share, so that load is spread."""
    DOT_PRODUCT = 3
    """The one whose free shares have the smallest scalar product with what the member wants of each resource.

    As in the comparison of Weng et al. (ATC 2023); Tetris (SIGCOMM 2014) takes the largest instead.
    """
    RACK_PACKING = 4
    """As few racks, and in each as few nodes, as can be.

    Racks that have room for the most members are filled until one rack has room for the rest; of those the one
    with the least room is taken. The nodes of a rack are chosen in the same way.
    """
    KUBE_DEFAULT = 5
    """The highest score of kube-scheduler (up to 1.34): LeastAllocated and BalancedAllocation.

    Both look at processors and memory only. Where the real one draws among equals, the first is taken.
    """
    FGD = 6
    """The node and GPU where the expected fragmentation grows least (Weng et al., ATC 2023).

    The fragmentation of a node for a task is its free GPU that the task cannot use: all of it if the task does
    not fit, else the GPUs with less free than the task wants of one. The expectation is over the jobs of the
    trace that want GPUs.
    """


class PlacedBackfilling(IntEnum):
    """How jobs may pass one that does not fit on any nodes yet; the number is the engine's code."""

    NONE = 0
    """Not at all: the order is strict."""
    EASY = 1
    """If they leave the first job that does not fit the places reserved for it."""
    SKIP = 2
    """Always: each job that fits starts, in order. Nothing is reserved, so large jobs may starve."""


_HERE = "presage.policies.placements"

PLACEMENTS: Registry[Placement] = Registry(
    "placement rule",
    "presage.placements",
    [
        Spec("first-fit", f"{_HERE}:FIRST_FIT", "the first node that has room"),
        Spec("best-fit", f"{_HERE}:BEST_FIT", "the node with the least left over"),
        Spec("worst-fit", f"{_HERE}:WORST_FIT", "the node with the most left over"),
        Spec("dot-product", f"{_HERE}:DOT_PRODUCT", "the smallest product of what is free and what is wanted"),
        Spec("rack-packing", f"{_HERE}:RACK_PACKING", "as few racks, then as few nodes, as can be"),
        Spec("kube-default", f"{_HERE}:KUBE_DEFAULT", "the default scores of kube-scheduler"),
        Spec("fgd", f"{_HERE}:FGD", "least growth of GPU fragmentation"),
    ],
)

PLACED_BACKFILLINGS: Registry[PlacedBackfilling] = Registry(
    "backfilling on nodes",
    "presage.placed_backfillings",
    [
        Spec("none", f"{_HERE}:NONE", "strict order: nobody passes the first job that does not fit"),
        Spec("easy", f"{_HERE}:EASY", "later jobs start if they leave the first that does not fit its places"),
        Spec("skip", f"{_HERE}:SKIP", "every job that fits starts, as in kube-scheduler; large jobs may starve"),
    ],
)

FIRST_FIT, BEST_FIT, WORST_FIT, DOT_PRODUCT, RACK_PACKING, KUBE_DEFAULT, FGD = Placement
NONE, EASY, SKIP = PlacedBackfilling


@dataclass(frozen=True)
class PlacedPolicy:
    """Names of registered kinds; `str(policy)` is what `parse` takes."""

    order: str = "fcfs"
    backfilling: str = "none"
    placement: str = "first-fit"

    def __post_init__(self) -> None:
        ORDERS.spec(self.order)
        PLACED_BACKFILLINGS.spec(self.backfilling)
        PLACEMENTS.spec(self.placement)

    @classmethod
    def parse(cls, text: str) -> PlacedPolicy:
        """Return the policy written as `sjf`, `sjf+easy` or `sjf+easy@best-fit`.

        Raises UnknownNameError or UsageError.
        """
        queue, at, placement = text.strip().lower().partition("@")
        order, plus, backfilling = queue.partition("+")
        if (plus and not backfilling) or (at and not placement):
            raise UsageError(
                f"The policy {text!r} lacks a name behind '+' or '@'",
                expected="ORDER, ORDER+BACKFILLING or ORDER+BACKFILLING@PLACEMENT, like sjf+easy@best-fit",
            )
        return cls(order, backfilling or "none", placement or "first-fit")

    def __str__(self) -> str:
        queue = self.order if self.backfilling == "none" else f"{self.order}+{self.backfilling}"
        return f"{queue}@{self.placement}"
