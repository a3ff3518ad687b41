"""The environments on real logs: whoever chooses as a rule does makes the simulator's schedule of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from presage import read_trace
from presage.environments import PLACEMENT_FEATURES, BackfillVector, NodeWindows, PlacementVector, Windows
from presage.policies import PlacedPolicy, Policy
from presage.simulator import jobs_of
from presage.simulator.placed import schedule_placed
from presage.simulator.pooled import schedule
from presage.traces.cleaning import clean


@pytest.mark.shared_data
def test_backfilling_a_real_log_in_order_is_easy(shared_data: Path) -> None:
    kth = clean(read_trace(shared_data / "KTH-SP2-1996-2.1-cln.swf.gz", format="swf"), ["archive"])
    part = kth.with_jobs(kth.jobs.head(3_000))
    environment = BackfillVector(Windows(part, jobs=3_000), 1, slots=3_000, autoreset=False)
    _, infos = environment.reset(seed=0)
    done, choices = np.zeros(1, bool), 0
    while not done[0]:
        _, _, done, _, infos = environment.step(infos["action_mask"].argmax(1))
        choices += 1
    expected = schedule(jobs_of(part, kill=True), 100, Policy.parse("fcfs+easy"))

    np.testing.assert_array_equal(environment.start_ms(0), expected)
    assert choices > 500


@pytest.mark.shared_data
def test_placing_a_real_log_by_best_fit_is_best_fit(shared_data: Path) -> None:
    """All 1,523 nodes of openb, with GPU types and shares, and pods that come much faster than they did."""
    folder = shared_data / "openb"
    pods = read_trace(folder / "openb_pod_list_default.csv.gz", folder / "openb_node_list_all_node.csv.gz")
    workload = NodeWindows(clean(pods, ["drop-unrun"]), jobs=1_500, load=3.0)
    environment = PlacementVector(workload, 1, autoreset=False)
    seen, infos = environment.reset(seed=0)
    free, done = PLACEMENT_FEATURES.index("free_share"), np.zeros(1, bool)
    while not done[0]:
        tightest = np.where(infos["action_mask"], seen[..., free], np.inf).argmin(1)
        seen, _, done, _, infos = environment.step(tightest)
    episode = workload.draw(np.random.default_rng(0))
    expected = schedule_placed(episode.wants, workload.nodes, PlacedPolicy.parse("fcfs@best-fit"))

    np.testing.assert_array_equal(environment.start_ms(0), expected.start_ms)
    np.testing.assert_array_equal(environment.nodes_of(0), expected.node)
    assert len(workload.nodes) == 1_523
