from __future__ import annotations

import numpy as np

from presage.synthesizers.sequence.features import HABITS, RECENT
from presage.synthesizers.sequence.memory import Memory

NOTHING = np.array([9, 9, 9])


def remember(memory: Memory, *jobs: tuple[int, int, int]) -> None:
    for number, job in enumerate(jobs, 1):
        vector = np.full((1, 1), number, np.float32)
        memory.add(np.array([job]), vector, vector, np.array([float(number)]))


def test_the_last_jobs_come_first() -> None:
    memory = Memory.empty(1, NOTHING, 1, sort=(1,))
    remember(memory, (1, 0, 0), (2, 0, 0), (3, 0, 0))
    assert memory.words[0, :4, 0].tolist() == [3, 2, 1, 9]
    assert memory.present[0, :RECENT].tolist() == [True] * 3 + [False] * (RECENT - 3)
    assert memory.keys[0, :3, 0].tolist() == [3, 2, 1]


def test_of_each_sort_the_last_job_is_kept_the_latest_sort_first() -> None:
    memory = Memory.empty(1, NOTHING, 1, sort=(1,))
    remember(memory, (1, 0, 0), (2, 5, 0), (3, 0, 0), (4, 7, 0))
    assert memory.words[0, RECENT : RECENT + 4, 0].tolist() == [4, 3, 2, 9]


def test_a_sort_outlives_the_last_jobs() -> None:
    memory = Memory.empty(1, NOTHING, 1, sort=(1,))
    remember(memory, (1, 5, 0), *((2, 0, 0) for _ in range(RECENT + 3)))
    assert 5 not in memory.words[0, :RECENT, 1]
    assert memory.words[0, RECENT + 1, 1] == 5


def test_the_oldest_of_too_many_sorts_is_forgotten() -> None:
    memory = Memory.empty(1, NOTHING, 1, sort=(1,))
    remember(memory, *((1, sort, 0) for sort in range(HABITS + 1)))
    assert memory.words[0, RECENT:, 1].tolist() == list(range(HABITS, 0, -1))


def test_run_times_are_found_by_sort_and_range() -> None:
    memory = Memory.empty(1, NOTHING, 1, sort=(1,))
    remember(memory, (1, 5, 2), (1, 6, 3))
    assert memory.run_of_same_sort_s(np.array([[0, 5, 2]])).tolist() == [1.0]
    assert np.isnan(memory.run_of_same_sort_s(np.array([[0, 5, 3]]))).all()


def test_a_part_is_not_a_copy() -> None:
    memory = Memory.empty(2, NOTHING, 1, sort=(1,))
    remember(memory.of(slice(1, 2)), (1, 2, 3))
    assert memory.words[1, 0].tolist() == [1, 2, 3]
    assert not memory.present[0].any()
