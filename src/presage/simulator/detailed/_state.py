"""Everything the detailed engine knows: what jobs are, how they stand, and what is still to happen.

Tables are arrays of records, because handing many single arrays from function to function makes compilation take
minutes. Work is counted in milliseconds times FULL, a rate in millionths of the speed at which a job's run time
was given, so that a job at rate FULL does one millisecond of work per millisecond; nothing but ends is rounded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from presage.simulator._cluster import Free, Machine, Want
from presage.simulator.detailed._compiling import inner

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from presage.simulator._fragmentation import Typical
    from presage.simulator.detailed._heap import Heap

    Ints = NDArray[np.int64]
    Floats = NDArray[np.float64]
    Records = NDArray[np.void]

FULL = 1_000_000
# How a job stands.
AHEAD, WAITING, RUNNING, DONE, HOPELESS = 0, 1, 2, 3, 4
# How a stretch of running ended.
COMPLETED, TIMED_OUT, NODE_FAILED, PREEMPTED = 0, 1, 2, 3
# What happens to the cluster.
FAIL, REPAIR, DRAIN, RESUME, PRIORITIZE = 0, 1, 2, 3, 4
# What a job waits for: another's start, its success, its failure, its end.
AFTER_START, AFTER_OK, AFTER_NOT_OK, AFTER_END = 0, 1, 2, 3
# Places in Cluster.clock.
NOW, NEXT_HAPPENING, WAITERS, RELEASES, LOGGED, TIMER = 0, 1, 2, 3, 4, 5
OFFLINE = 1 << 40
"""Taken off the free processors of a node that takes no jobs: nothing fits there, whatever is given back."""


def _integers(*names: str) -> list[tuple[str, type]]:
    return [(name, np.int64) for name in names]


JOB = np.dtype(
    [
        # What it is: times in milliseconds, work in milliseconds times FULL.
        *_integers("submit", "work", "limit", "estimate", "plan"),
        *_integers("size", "user"),
        *_integers("succeeds"),  # 0 if it fails in the end, however far it gets
        *_integers("preemptible"),
        *_integers("checkpoint"),  # work between two; 0 if an interrupted job starts from the beginning
        *_integers("restart"),  # work to be done before going on after an interruption
        *_integers("kind"),  # row of the table of speeds
        *_integers("rank"),  # place in a static order
        *_integers("first_edge", "last_edge"),  # who waits for it
        # What each of its members wants, as in Want. It can run with `least` of `tasks` members.
        *_integers("tasks", "least", "cpu", "mem", "gpus", "share", "types", "features", "shape"),
        *_integers("first_member"),
        # How it stands.
        *_integers("status", "unmet", "eligible"),  # `unmet` edges still hold it back
        *_integers("left"),  # work left at `since`, what must be done before going on included
        *_integers("rest"),  # work left, without that, when it last started
        *_integers("rate", "since", "members"),
        *_integers("first_start", "start", "end", "planned_end"),
        *_integers("attained"),  # processor milliseconds held until `since`
        *_integers("boost"),  # those with more go before all with less, whatever the order says
        ("score", np.float64),  # what was scored once, on arrival
        *_integers("preemptions", "failures", "lost"),  # `lost` is work done in vain
    ]
)
USER = np.dtype(
    [
        # What the user's running jobs hold, in thousandths of processors, MiB, thousandths of GPUs, and size.
        *_integers("cpu", "mem", "gpu", "size"),
        ("usage", np.float64),  # size times seconds, decayed, at `usage_at`
        *_integers("usage_at"),
        ("past_run_s", np.float64),
        *_integers("past_jobs"),
    ]
)
NODE = np.dtype(
    [
        *_integers("away"),  # how many failures and drains keep it from taking jobs
        *_integers("first_here"),  # the first member on it, or -1
        *_integers("crowd"),  # how many members are on it
    ]
)
MEMBER = np.dtype(_integers("job", "next_here", "previous_here"))
EDGE = np.dtype(_integers("job", "kind", "delay"))
HAPPENING = np.dtype(_integers("instant", "what", "target", "value"))
STRETCH = np.dtype(_integers("job", "start", "end", "how"))


class Speeds(NamedTuple):
    """How fast jobs run where, in millionths; see presage.simulator.detailed.throughput."""

    on_node: Ints
    """Per kind of job and node."""
    across: Ints
    """Per kind of job the factors for a gang on several nodes of a rack, and on several racks."""
    on_gpu: Ints
    """The factor by how many others share the GPU; the last entry holds for more."""
    beside: Ints
    """The factor by how many other members are on the node."""


class Rules(NamedTuple):
    """How decisions are made; codes of presage.policies."""

    order: int
    backfilling: int
    placement: int
    preempts: bool
    kills: bool
    shares: bool
    """Whether neighbours slow each other down."""
    numbers: Floats
    """Settings of the order."""


class Cluster(NamedTuple):
    """Jobs, users and nodes at some instant."""

    jobs: Records
    users: Records
    nodes: Records
    members: Records
    member_node: Ints
    member_gpus: Ints
    tenants: Ints
    """Per GPU how many members share it."""
    edges: Records
    happenings: Records
    log: Records
    """Stretches of running that are over, the first LOGGED entries."""
    queue: Ints
    """The waiting jobs, the first WAITERS entries."""
    refused: Ints
    """Per shape the number of RELEASES at which it last did not fit."""
    scratch: Ints
    """One entry per job, to compute in."""
    features: Floats
    """Of the job that is being scored."""
    usage: Floats
    """One entry: what all users together used, decayed."""
    ends: Heap
    arrivals: Heap
    clock: Ints
    machine: Machine
    totals: Ints
    """What all nodes have: thousandths of processors, MiB and thousandths of GPUs, each at least 1."""
    free: Free
    speeds: Speeds
    rules: Rules


class Thoughts(NamedTuple):
    """Room to compute in while deciding."""

    spare: Free
    both: Free
    typical: Typical


@inner
def want_members(jobs: Records, job: int, members: int) -> Want:
    """Return what `members` members of a job want."""
    one = jobs[job]
    return Want(members, one.cpu, one.mem, one.gpus, one.share, one.types, one.features)
