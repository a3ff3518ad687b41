from __future__ import annotations

import numpy as np
import pytest

from presage.errors import InputError
from presage.synthesizers.fidelity.correlations import compare_correlations, correlation_matrix, mean_ranks
from presage.testing.traces import make_job, make_trace
from presage.traces import Trace


def test_equal_values_share_the_mean_of_their_ranks() -> None:
    assert mean_ranks(np.array([30.0, 10, 20, 10])).tolist() == [4.0, 1.5, 3.0, 1.5]


def test_pearson_and_spearman_by_hand() -> None:
    x, y = np.array([1.0, 2, 3]), np.array([1.0, 8, 9])
    # Deviations (-1, 0, 1) and (-5, 2, 3): 8 / sqrt(2 x 38).
    assert correlation_matrix([x, y], ranks=False)[0, 1] == pytest.approx(8 / np.sqrt(76))
    assert correlation_matrix([x, y], ranks=True)[0, 1] == pytest.approx(1.0)


def test_pairs_count_where_both_are_known_and_a_constant_goes_with_nothing() -> None:
    x, y, same = np.array([1.0, 2, np.nan, 3]), np.array([2.0, 4, 99, 6]), np.ones(4)
    matrix = correlation_matrix([x, y, same], ranks=False)
    assert matrix[0, 1] == pytest.approx(1.0)
    assert matrix[2, 0] == matrix[2, 1] == 0.0


def test_a_trace_has_its_own_correlations(log: Trace) -> None:
    found = compare_correlations(log, log)
    assert found.names == ("gap_s", "run_s", "cpus", "limit_s", "completed")
    assert (found.pearson_difference, found.spearman_difference) == (0.0, 0.0)
    assert found.pearson_real[1][3] > 0.5  # long limits, long runs


def test_drawing_each_column_by_itself_is_seen(log: Trace) -> None:
    apart = log.with_jobs(log.jobs.with_columns(log.jobs["run_s"].shuffle(seed=1)))
    found = compare_correlations(log, apart)
    assert found.pearson_difference > 0.05
    assert abs(found.pearson_synthetic[1][3]) < 0.15


def test_nothing_to_correlate() -> None:
    alike = make_trace(*(make_job(at * 60, 0, 10) for at in range(2)))
    with pytest.raises(InputError, match="fewer than two columns"):
        compare_correlations(alike, alike)
