"""Going on from jobs that were there before: streams begin with what their users did last."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from presage.synthesizers.columns import RUN, SIZE
from presage.synthesizers.sequence.features import moments_of
from presage.synthesizers.sequence.fields import LIMIT, known_numbers
from presage.synthesizers.sequence.streams import WEEK_S, cut

if TYPE_CHECKING:
    from presage.synthesizers.columns import Columns, IntArray, JobTable
    from presage.synthesizers.sequence.features import Moment
    from presage.synthesizers.sequence.fields import Fields
    from presage.synthesizers.sequence.forward import Weights
    from presage.synthesizers.sequence.memory import Memory
    from presage.synthesizers.sequence.plans import Plan

LAST_JOBS = 32
"""How many jobs of a user are looked at."""


def go_on(
    history: JobTable,
    plan: Plan,
    moment: Moment,
    memory: Memory,
    columns: Columns,
    fields: Fields,
    weights: Weights,
) -> None:
    """Let the first stream of each user remember the jobs of the user in `history`."""
    if history.submit_ms is None:
        raise ValueError("jobs to go on from have times")
    early_s = plan.calendar.first_s - float(plan.calendar.since_monday_s(history.submit_ms[:1])[0])
    back = int(early_s // WEEK_S) + 1
    calendar = replace(
        plan.calendar, monday_ms=plan.calendar.monday_ms - back * WEEK_S * 1000, first_s=0.0,
        last_s=float(plan.calendar.first_s + back * WEEK_S),
    )  # fmt: skip
    users = history.codes.get("user", np.zeros(len(history), np.int64))
    streams = cut(history.submit_ms, users, calendar)
    ordered = history.rows(streams.order)
    known = known_numbers(columns, ordered)
    before, gap_s = moments_of(history.submit_ms, streams, calendar, known)
    words = fields.words(ordered, gap_s, before.done_today == 0)
    at_s = plan.calendar.since_monday_s(history.submit_ms[streams.order])
    for stream, rows in _rows_of_streams(plan, users[streams.order]).items():
        for row in rows[-LAST_JOBS:, None]:
            key, value = weights.remember(words[row])
            memory.of(slice(stream, stream + 1)).add(words[row], key, value, known[RUN][row])
        last = rows[-1]
        moment.away_s[stream] = -at_s[last]  # by the beginning of the week, where streams begin
        moment.done[stream] = before.done[last] + 1
        moment.last_run_s[stream] = known[RUN][last]
        moment.last_limit_s[stream] = known[LIMIT][last]
        moment.last_size[stream] = known[SIZE][last]
        moment.usual_run[stream] = np.log1p(known[RUN][rows]).mean()
        moment.usual_size[stream] = np.log1p(np.nan_to_num(known[SIZE][rows], nan=1.0)).mean()


def _rows_of_streams(plan: Plan, users: IntArray) -> dict[int, IntArray]:
    """Return the earlier jobs of each stream that is the first of its user, the latest last."""
    begins = plan.day[np.concatenate([[0], np.cumsum(plan.jobs)[:-1]])]
    found: dict[int, IntArray] = {}
    met: set[int] = set()
    for stream in np.argsort(begins, kind="stable").tolist():
        user = int(plan.user[stream])
        rows = np.flatnonzero(users == user)
        if user not in met and len(rows):
            found[stream] = rows
        met.add(user)
    return found
