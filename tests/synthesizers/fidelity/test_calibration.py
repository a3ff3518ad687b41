"""The figures of two stretches of a real log, as they were measured by other means before."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from presage.synthesizers.fidelity.constraints import count_violations
from presage.synthesizers.fidelity.marginals import compare_marginals
from presage.synthesizers.fidelity.memorisation import measure_memorisation
from presage.synthesizers.fidelity.temporal import measure_rhythm
from presage.traces import Trace, read_trace
from presage.traces.schema import size
from tests.synthesizers.fidelity.conftest import shuffled

pytestmark = pytest.mark.shared_data


@pytest.fixture(scope="module")
def stretches(shared_data: Path) -> tuple[Trace, Trace]:
    """20,000 jobs of SDSC-BLUE, and the 20,000 after them."""
    log = read_trace(f"{shared_data}/SDSC-BLUE-2000-4.2-cln.swf.gz")
    jobs = log.jobs.filter((size() > 0) & (pl.col("run_s") >= 0) & pl.col("limit_s").is_not_null())
    assert len(jobs) == 232_562
    first, second = (Trace.create(jobs[at : at + 20_000], log.manifest) for at in (50_000, 70_000))
    return first, second


def test_columns(stretches: tuple[Trace, Trace]) -> None:
    found = compare_marginals(*stretches, same_people=True)
    assert found.mean_ks == pytest.approx(0.079, abs=0.001)
    assert found.mean_tv_by_label == pytest.approx(0.296, abs=0.001)
    broken = count_violations(*stretches)
    assert broken.real.over_limit == pytest.approx(0.003, abs=0.0005)
    assert broken.synthetic.over_limit == pytest.approx(0.007, abs=0.0005)


def test_time(stretches: tuple[Trace, Trace]) -> None:
    # Hourly counts begin with the first job, which moves the correlation a day apart by about .01.
    for trace, ac1, ac24, same_user, repeated in (
        (stretches[0], 0.33, 0.46, 0.31, 0.25),
        (stretches[1], 0.35, 0.33, 0.31, 0.28),
        (shuffled(stretches[0]), 0.01, 0.02, 0.02, 0.01),
    ):
        found = measure_rhythm(trace)
        assert found.ac1 == pytest.approx(ac1, abs=0.025)
        assert found.ac24 == pytest.approx(ac24, abs=0.02)
        assert found.same_user == pytest.approx(same_user, abs=0.006)
        assert found.repeated == pytest.approx(repeated, abs=0.006)


def test_people_repeat_themselves(stretches: tuple[Trace, Trace]) -> None:
    found = measure_memorisation(*stretches, same_people=True)
    assert found.synthetic.rows_and_gap == pytest.approx(0.013, abs=0.001)
