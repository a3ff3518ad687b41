"""What a detector is, what it is given, and what it gives back."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from presage.foundation.anomalies.knowledge import Knowledge
    from presage.traces import Trace

EVIDENCE = 20
"""So many job ids a finding names at most."""
HIGHEST_SCORE = 100.0


@dataclass(frozen=True)
class Anomaly:
    """One anomaly.

    `score` is a surprise: -log10 of how many findings as odd a day of ordinary work would give, which is how
    likely it is by chance times how many things of that kind are looked at per day. At 3, ordinary work would
    give one in a thousand days, as far as the detector's model of ordinary work is true. It ends at 100.
    """

    kind: str
    """The name of the detector."""
    subject: str
    """What sort of thing it is about: job, user, node, nodes, rack, partition, queue or cluster."""
    name: str
    """Which one: an id, or several jobs' common user."""
    start_ms: int
    end_ms: int
    """When it could be told: nothing that the trace says of later times has been used."""
    score: float
    reason: str
    """One sentence with the numbers in it."""
    evidence: tuple[str, ...] = ()
    """Ids of jobs that show it, the most telling or the first, at most `EVIDENCE`."""
    jobs: int = 0
    """All jobs that show it."""
    numbers: dict[str, float] = field(default_factory=dict)
    """The numbers of the reason, for programs."""
    rows: tuple[int, ...] = field(default=(), repr=False, compare=False)
    """Rows of the job table that it explains, so that they are not told of again."""

    def to_dict(self) -> dict[str, Any]:
        """Return the finding for JSON."""
        document = asdict(self)
        del document["rows"]
        return {**document, "score": round(self.score, 2), "evidence": list(self.evidence)}


class Detector(ABC):
    """Finds anomalies of one kind in what is known of a cluster.

    `name` is the kind of its findings and its name in the registry. `needs` says, in words for a person, why the
    detector cannot say anything about a trace (a column is missing), or None if it can. `find` is called only
    then, with everything known so far, and returns findings in any order; it may return those below
    `known.min_score`, which are dropped.

    A detector must cope with any trace that `needs` lets through: no row, nulls anywhere, times that jump back. A
    finding may rest only on what was known at its `end_ms`: rows that ended, started or were submitted later do
    not change it, so that asking every hour and asking once at the end agree.

    `family` is what it is about: failures, waits, runs or requests. Jobs marked in `known.explained[family]` have
    been told of by a detector of the family that ran before, and are left out.
    """

    name: ClassVar[str]
    family: ClassVar[str]

    @abstractmethod
    def needs(self, trace: Trace) -> str | None:
        """Return why nothing can be said of this trace, or None."""

    @abstractmethod
    def find(self, known: Knowledge) -> list[Anomaly]:
        """Return the anomalies of this kind."""


def missing(trace: Trace, **columns: str) -> str | None:
    """Return the reason for `needs` where a job column is null throughout: `name="what it is"`."""
    absent = [
        f"{what} ({name})" for name, what in columns.items() if trace.jobs[name].null_count() == len(trace.jobs)
    ]
    return f"the trace has no {', no '.join(absent)}" if absent else None
