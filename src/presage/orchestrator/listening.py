"""What jobs told their cluster, fetched for a few jobs at each poll.

A cluster that keeps such messages is asked about one job at a time. However many run, it gets no more than so many
questions at a poll: about those that have ended first, about the others in turn.
"""

from __future__ import annotations

import logging
from bisect import bisect_right
from typing import TYPE_CHECKING

from presage.connectors._base import KeepsMessages
from presage.errors import ClusterRefusedError
from presage.traces.schema import Outcome

if TYPE_CHECKING:
    from collections.abc import Mapping

    from presage.connectors._base import Connector, JobStatus
    from presage.orchestrator.store import Store

log = logging.getLogger(__name__)

MOST_ASKED = 10
"""At one poll."""


class Listening:
    """Remembers whose turn it is and what was fetched; forgotten, all is fetched again and heard but once."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._fetched: dict[str, dict[str, int]] = {}
        self._last: dict[str, str] = {}

    def listen(self, cluster: str, connector: Connector, statuses: Mapping[str, JobStatus]) -> None:
        """Keep what some of a cluster's jobs told, for whoever looks at them next.

        What cannot be had now is asked for when the turn comes again. Raises OutputError if the database takes
        nothing.
        """
        if not isinstance(connector, KeepsMessages):
            return
        before = self._fetched.get(cluster, {})
        fetched = self._fetched[cluster] = {each: count for each, count in before.items() if each in statuses}
        for cluster_job_id in self._next(cluster, statuses):
            try:
                messages, behind = connector.messages(cluster_job_id, fetched.get(cluster_job_id, 0))
            except ClusterRefusedError as error:
                log.info("%s does not say what the job %s told: %s", cluster, cluster_job_id, error)
                continue
            except Exception as error:  # noqa: BLE001  (what jobs tell is never worth a poll)
                log.warning("%s cannot be asked what jobs told: %r", cluster, error)
                return
            if not messages or self._store.add_messages(cluster, cluster_job_id, messages):
                fetched[cluster_job_id] = behind

    def _next(self, cluster: str, statuses: Mapping[str, JobStatus]) -> list[str]:
        ended = [job_id for job_id, status in statuses.items() if status.is_final]
        running = sorted(job_id for job_id, status in statuses.items() if status.state is Outcome.RUNNING)
        turn = bisect_right(running, self._last.get(cluster, ""))
        in_turn = (running[turn:] + running[:turn])[: max(0, MOST_ASKED - len(ended))]
        if in_turn:
            self._last[cluster] = in_turn[-1]
        return [*ended, *in_turn][:MOST_ASKED]
