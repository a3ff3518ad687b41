"""All jobs of a table as examples for the network."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from presage.synthesizers.sequence.features import HISTORY, RECENT, after_gap, before_gap
from presage.synthesizers.sequence.fields import REST_KNOTS
from presage.synthesizers.sequence.memory import Memory
from presage.synthesizers.sequence.network import Batch

if TYPE_CHECKING:
    from presage.synthesizers.columns import FloatArray, IntArray, JobTable
    from presage.synthesizers.sequence.features import Float32, Moment
    from presage.synthesizers.sequence.fields import Fields, Flags
    from presage.synthesizers.sequence.streams import Streams


@dataclass(frozen=True)
class Examples:
    """Jobs stream by stream, in the order of `Streams.order`."""

    before: Float32
    after: Float32
    user: IntArray
    words: IntArray
    history: IntArray
    """(jobs, K): which jobs one may look back to; -1 where there is none."""
    fresh: Flags
    """Whether it is the first of a day."""
    gap_words: Flags
    run_words: Flags
    sort: tuple[int, ...]
    """The fields that say what sort a job is of."""
    nothing: IntArray
    """For each field, the word for no job."""

    def counts(self, rows: IntArray, users: int) -> list[IntArray]:
        """Return how often each user has each word of a field in some of the jobs: (users, words) each."""
        tables = []
        for place, size in enumerate(self.nothing.tolist()):
            pairs = self.user[rows] * size + self.words[rows, place]
            tables.append(np.bincount(pairs, minlength=users * size).reshape(users, size))
        return tables

    def batch(self, rows: IntArray) -> Batch:
        """Return some of the jobs."""
        earlier = self.history[rows]  # (B, K)
        present = earlier >= 0
        history = np.where(present[..., None], self.words[earlier], self.nothing)
        return Batch(
            torch.from_numpy(self.before[rows]),
            torch.from_numpy(self.after[rows]),
            torch.from_numpy(self.user[rows]),
            torch.from_numpy(self.words[rows]),
            torch.from_numpy(history),
            torch.from_numpy(present),
            torch.from_numpy(self.fresh[rows]),
            torch.from_numpy(self.gap_words[rows]),
            torch.from_numpy(self.run_words[rows]),
        )


def make_examples(
    fields: Fields, table: JobTable, streams: Streams, moment: Moment, gap_s: FloatArray, users: IntArray
) -> Examples:
    """Return the jobs of `table`, whose users are `users`, as examples."""
    fresh = moment.done_today == 0
    words = fields.words(table.rows(streams.order), gap_s, fresh)
    before = before_gap(moment)
    return Examples(
        before=before,
        after=after_gap(moment, gap_s, before),
        user=users[streams.order],
        words=words,
        history=remembered(streams, words, fields),
        fresh=fresh,
        gap_words=fields.possible_gaps(fresh),
        run_words=fields.possible_runs(words),
        sort=fields.sort,
        nothing=np.array(fields.sizes),
    )


def remembered(streams: Streams, words: IntArray, fields: Fields) -> IntArray:
    """Return which jobs each job may look back to, in the order of the streams: (jobs, K), -1 for none."""
    order = np.argsort(-streams.jobs, kind="stable")
    jobs, first = streams.jobs[order], streams.first[:-1][order]
    # The memory that drawing uses, with the number of a job in place of its run time.
    memory = Memory.empty(len(order), np.array(fields.sizes), 1, fields.sort)
    memory.run_s[:] = -1
    known = np.empty((len(words), HISTORY), np.int64)
    active = len(order)
    for step in range(int(jobs[0])):
        while jobs[active - 1] <= step:
            active -= 1
        rows = first[:active] + step
        held = memory.of(slice(active))
        known[rows] = held.run_s
        nothing = np.zeros((active, 1), np.float32)
        held.add(words[rows], nothing, nothing, rows.astype(np.float64))
    return known


def echo_quantiles(examples: Examples, run_s: FloatArray) -> FloatArray:
    """Return by how much, in logarithms, a run time differs from the last of the same sort and range."""
    _, ratios = echoes(examples, run_s)
    return np.quantile(ratios, np.linspace(0, 1, REST_KNOTS)) if len(ratios) else np.zeros(REST_KNOTS)


def echoes(examples: Examples, run_s: FloatArray) -> tuple[IntArray, FloatArray]:
    """Return the jobs that have an earlier one of their sort and range, and how much their run times differ."""
    before = examples.history[:, RECENT:]  # (jobs, HABITS): one of each sort
    sorts = examples.words[:, examples.sort]
    alike = (before >= 0) & (sorts[before] == sorts[:, None, :]).all(axis=2)
    alike &= examples.words[before, -1] == examples.words[:, None, -1]
    rows, slots = np.nonzero(alike)
    return rows, np.log1p(run_s[rows]) - np.log1p(run_s[before[rows, slots]])
