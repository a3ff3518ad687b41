"""The names of all numbers that the model reads, in the order in which the kernels write them.

Everything is a logarithm of seconds or counts (`log(1 + x)`), a share of the machine, a rank among recent submits
or a flag, so that a cluster of any size and speed looks alike. -1 stands for "never seen yet" among durations.
`VERSION` goes up whenever a number changes its meaning: weights belong to one version.
"""

from __future__ import annotations

VERSION = 3


def _spread(name: str) -> tuple[str, ...]:
    return tuple(f"{name}_p{percent}" for percent in (10, 25, 50, 75, 90))


REQUEST = (
    "size", "size_share", "limit", "area_share", "is_serial", "has_limit",
    "gpus", "gpu_share", "memory", "has_memory", "age", "elapsed",
)  # fmt: skip
RANKS = (
    "rank_size", "rank_limit", "rank_area", "rank_waiting_area", "rank_waiting_jobs", "rank_remaining",
    "rank_smaller_area", "rank_free", "rank_user_area", "limit_against_usual",
)  # fmt: skip
MACHINE = ("free", "used_against_peak", "slack", "fits", "gpu_free", "gpu_slack", "gpu_fits", "running_jobs")
WAITING = (
    "waiting_jobs", "waiting_size", "waiting_area", "waiting_estimated", "oldest", "mean_age",
    "queue_jobs", "queue_area", "queue_oldest", "user_jobs", "user_area", "user_oldest", "user_newest",
    "smaller_area", "smaller_jobs", "larger_jobs", "user_part",
)  # fmt: skip
RUNNING = (
    "remaining_by_limit", "remaining_by_estimate", "elapsed_area", "user_running", "user_share",
    "user_share_against_largest", "user_running_against_most", "queue_share", "fit_by_limit", "fit_by_estimate",
)  # fmt: skip
RATES = (
    "submits_10min", "submits_60min", "starts_10min", "starts_60min", "since_start", "since_end",
    "started_area", "waiting_against_started", "user_drain", "queue_drain", "cluster_drain",
)  # fmt: skip
PREVIOUS = (
    "identical_state", "identical_since", "identical_wait", "previous_state", "previous_since", "previous_wait",
)  # fmt: skip
WAITS = (
    "queue_last", "queue_mean", "user_last", "user_mean", "cluster_mean", "last_8", "last_64",
    *_spread("class"), "user_p25", "user_p50", "user_p75", *_spread("neighbour"), "neighbour_mean",
    *_spread("recent"),
)  # fmt: skip
DISTANCES = ("class_jobs", "neighbour_distance", "nearest_distance")
RUNS = (
    "run_last", "run_second_last", "run_mean", "run_identical", "run_max", "run_estimate", *_spread("similar"),
    "others_p50", "elapsed_of_user", "elapsed_identical", "limit_again",
)  # fmt: skip
HABITS = (
    "limit_use", "finished_jobs", "since_user_end", "since_user_submit",
    "similar_use_p25", "similar_use_p50", "similar_use_p75", "similar_jobs", "user_failures",
)  # fmt: skip
CALENDAR = ("hour_sin", "hour_cos", "weekend")
WAITS_RELATIVE = tuple(f"{name}_relative" for name in WAITS)
RUNS_RELATIVE = tuple(f"{name}_relative" for name in RUNS)
ANCHORS = ("wait_anchor", "run_anchor")
ALIKE_RUNS = (*_spread("alike"), "alike_mean")
FAILURES = (
    "alike_failures", "similar_failures", "identical_failed", "user_failures_log", "user_failures_slow",
    "ends_since_failure", "queue_failures", "cluster_failures",
)  # fmt: skip
TRUST = ("user_work_error", "user_run_error", "work_error", "run_error")
WORK = (
    "work_anchor", *ALIKE_RUNS, *(f"{name}_relative" for name in ALIKE_RUNS), "alike_distance", *FAILURES, *TRUST,
    "campaign_place",
)  # fmt: skip
"""What only those networks read that forecast run times and ends; the others take the numbers before them."""

GROUPS = (
    REQUEST, RANKS, MACHINE, WAITING, RUNNING, RATES, PREVIOUS, WAITS, DISTANCES, RUNS, HABITS, CALENDAR,
    WAITS_RELATIVE, RUNS_RELATIVE, ANCHORS, WORK,
)  # fmt: skip
QUERY = tuple(name for group in GROUPS for name in group)
DURATIONS = (
    "limit", "area_share", "age", "elapsed", "waiting_area", "waiting_estimated", "oldest", "mean_age",
    "queue_area", "queue_oldest", "user_area", "user_oldest", "user_newest", "smaller_area", "remaining_by_limit",
    "remaining_by_estimate", "elapsed_area", "fit_by_limit", "fit_by_estimate", "since_start", "since_end",
    "started_area", "user_drain", "queue_drain", "cluster_drain", "identical_since", "identical_wait",
    "previous_since", "previous_wait", *WAITS, *RUNS, "since_user_end", "since_user_submit", *ANCHORS,
    "work_anchor", *ALIKE_RUNS,
)  # fmt: skip
"""Those that are logarithms of seconds: a clock that ran at another speed would change them all alike."""
PLACE = {name: place for place, name in enumerate(QUERY)}
ALWAYS_SEEN = slice(PLACE[FAILURES[0]], PLACE[TRUST[-1]] + 1)
"""Shares and errors that mean the same on every cluster: not hidden where all other numbers are."""

STATE_WEIGHTS = {
    "size": 0.5, "limit": 0.4, "slack": 1.5, "fits": 0.7, "waiting_jobs": 0.3, "waiting_area": 0.12,
    "smaller_area": 0.15, "smaller_jobs": 0.3, "user_area": 0.15, "user_jobs": 0.5, "fit_by_limit": 0.1,
    "fit_by_estimate": 0.1, "remaining_by_estimate": 0.1, "free": 0.7, "queue_mean": 0.15, "queue_jobs": 0.2,
    "queue_area": 0.08, "starts_10min": 0.1, "user_drain": 0.15, "queue_drain": 0.1,
    "user_share_against_largest": 0.3, "gpus": 0.5, "gpu_slack": 1.0, "gpu_fits": 0.7,
}  # fmt: skip
"""The numbers that make two states alike, and how much one unit of difference counts."""
STATE = tuple(STATE_WEIGHTS)
HABIT_WEIGHTS = {
    "size": 0.5, "limit": 0.9, "size_share": 0.0, "memory": 0.5, "gpus": 0.3, "finished_jobs": 0.09,
    "user_running": 0.42, "user_jobs": 0.4, "since_user_submit": 0.16, "campaign_place": 0.3,
    "user_failures": 0.4, "run_estimate": 0.03, "run_last": 0.15, "run_mean": 0.1, "similar_p50": 0.1,
    "elapsed_of_user": 0.05, "hour_sin": 0.1, "hour_cos": 0.1, "user_area": 0.15, "user_oldest": 0.2,
    "since_user_end": 0.05, "run_identical": 0.1, "similar_p75": 0.08, "limit_use": 0.12,
}  # fmt: skip
"""The same for jobs as work: what a user was about at the submit. Weight 0: compared, but not searched by."""
HABIT_STATE = tuple(HABIT_WEIGHTS)

# Earlier jobs shown to the model, by why they are shown.
NEIGHBOURS, OF_USER, RECENT, STILL_WAITING = 24, 12, 12, 8
WAIT_CONTEXT = NEIGHBOURS + OF_USER + RECENT + STILL_WAITING
SIMILAR, LATEST, CAMPAIGNS, OTHERS, ALIKE, STILL_RUNNING = 12, 4, 12, 8, 16, 8
RUN_CONTEXT = SIMILAR + LATEST + CAMPAIGNS + OTHERS + ALIKE + STILL_RUNNING

TOKEN_VALUES = (
    "outcome_relative", "outcome", "censored", "age", "known_for", "residual", "outcome_against_its_limit",
    "outcome_against_my_limit", "failed", "name_alike", "memory_difference", "gpu_difference",
)  # fmt: skip
TOKEN_DURATIONS = ("outcome", "age", "known_for")
"""Logarithms of seconds, an eighth of them."""
TOKEN_SAME = (
    "same_user", "same_queue", "same_group", "same_program", "same_size", "same_limit", "same_name", "identical",
)  # fmt: skip
TOKEN_KINDS = ("kind_0", "kind_1", "kind_2", "kind_3")
DIFFERENCES = max(len(STATE), len(HABIT_STATE))
TOKEN = (*TOKEN_VALUES, *TOKEN_SAME, *TOKEN_KINDS, *(f"difference_{place}" for place in range(DIFFERENCES)))
