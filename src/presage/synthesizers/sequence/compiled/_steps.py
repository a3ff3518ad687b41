"""One job more of each stream; see `Steps`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from presage.synthesizers.sequence.compiled._compiling import compiled, inner
from presage.synthesizers.sequence.compiled._forward import draw_word
from presage.synthesizers.sequence.compiled._memory import remember, run_of_same_sort_s
from presage.synthesizers.sequence.features import (
    AFTER,
    BEFORE,
    CLOCK,
    Moment,
    after_job,
    numbers_after,
    numbers_before,
)
from presage.synthesizers.sequence.meanings import Meanings, gap_seconds, run_seconds

if TYPE_CHECKING:
    from presage.synthesizers.sequence.compiled._parts import Held, Parts


@compiled
def draw(
    parts: Parts, meanings: Meanings, moment: Moment, held: Held, user: np.ndarray, chances: np.ndarray,
    words: np.ndarray, gap_s: np.ndarray, run_s: np.ndarray,
) -> None:  # fmt: skip
    """Write the next job of each stream; see `Steps`."""
    streams, last = words.shape[0], words.shape[1] - 1
    told = np.zeros((streams, parts.body.shape[1]), np.float32)  # numbers, who, words so far, what is remembered
    for a in range(streams):
        _tell(told[a], numbers_before(_of_stream(moment, a)), 0)
        told[a, AFTER : AFTER + parts.user.shape[1]] = parts.user[user[a]]
    # All streams field by field, so that the weights of one field stay in the processor's cache.
    for place in range(last + 1):
        for a in range(streams):
            bound_s: Any = _bound_s(meanings, words[a]) if place == last else np.inf
            chance = chances[2 + 3 * place if place else 0 :, a]
            words[a, place] = draw_word(
                parts, meanings, moment, held, place, a, user[a], told[a], words[a], bound_s, chance
            )
            _add_word(parts, place, words[a, place], told[a])
            if place == 0:
                gap_s[a] = gap_seconds(meanings, words[a, 0], moment.now_s[a], chances[4, a])
                _tell(told[a], numbers_after(_of_stream(moment, a), gap_s[a]), BEFORE - CLOCK)
            elif place == last:
                before_s: Any = run_of_same_sort_s(parts, held, a, words[a])
                run_s[a] = run_seconds(meanings, words[a, last], bound_s, before_s, chances[-1, a])


@compiled
def take_up(
    parts: Parts, meanings: Meanings, moment: Moment, held: Held, words: np.ndarray, gap_s: np.ndarray,
    run_s: np.ndarray,
) -> None:  # fmt: skip
    """Let the jobs just drawn be the last ones of their streams, and be remembered."""
    for a in range(len(words)):
        limit_s = meanings.limits_s[words[a, meanings.limit_place]]
        size = meanings.sizes[words[a, meanings.size_place]]
        later = after_job(_of_stream(moment, a), gap_s[a], run_s[a], limit_s, size)
        for each in range(len(later)):
            moment[each][a] = later[each]
        remember(parts, held, a, words[a], run_s[a])


@inner
def _of_stream(moment: Moment, a: int) -> Moment:
    """Return the moment of one stream, as numbers."""
    return Moment(
        moment.now_s[a], moment.away_s[a], moment.gap_1_s[a], moment.gap_2_s[a], moment.gap_3_s[a],
        moment.last_run_s[a], moment.last_limit_s[a], moment.last_size[a], moment.usual_run[a],
        moment.usual_size[a], moment.done[a], moment.done_week[a], moment.done_today[a], moment.left_week[a],
        moment.left_today[a], moment.session_jobs[a], moment.session_s[a], moment.work_today[a],
        moment.work_left[a],
    )  # fmt: skip


@inner
def _tell(told: np.ndarray, numbers: tuple[Any, ...], begin: int) -> None:
    for place in range(len(numbers)):
        told[begin + place] = numbers[place]


@inner
def _add_word(parts: Parts, place: int, word: int, told: np.ndarray) -> None:
    """Let what is told of the words so far know one more."""
    vector = parts.words[parts.first[place] + place + word]
    begin = AFTER + parts.user.shape[1]
    for d in range(len(vector)):
        told[begin + d] += vector[d]


@inner
def _bound_s(meanings: Meanings, words: np.ndarray) -> float:
    """Return how long a job may run; see `Fields.run_bound_s`."""
    limit_s = meanings.limits_s[words[meanings.limit_place]]
    return np.inf if len(meanings.rest_s) == 0 or np.isnan(limit_s) else limit_s
