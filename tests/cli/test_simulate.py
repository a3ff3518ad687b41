from __future__ import annotations

from pathlib import Path

import pytest

from presage.learning.learned_policy import LearnedPolicy
from presage.traces.workloads import make_model
from presage.traces.writers import choose_writer

from .conftest import Presage

KEYS = {
    "jobs", "mean_bounded_slowdown", "mean_wait_s", "mean_response_s", "utilization", "makespan_s", "jobs_per_s",
}  # fmt: skip


@pytest.fixture
def log(fixtures: Path) -> Path:
    return fixtures / "swf.swf"


def test_simulate_gives_the_promised_keys(presage: Presage, log: Path) -> None:
    call = (
        "simulate",
        log,
        "--policy",
        "sjf",
        "--backfill",
        "easy",
        "--clean",
        "archive",
        "--limit",
        "2",
        "--json",
    )
    result = presage(*call)
    assert result.exit_code == 0
    assert result.document.keys() >= KEYS
    assert (result.document["jobs"], result.document["policy"]) == (2, "sjf+easy")


def test_the_size_of_the_machine_can_be_changed(presage: Presage, log: Path) -> None:
    small = presage("simulate", log, "--clean", "archive", "--processors", "4", "--json").document
    # The job of 64 processors no longer fits and is dropped by the rules.
    assert (small["jobs"], small["processors"]) == (2, 4)


def test_the_schedule_can_be_kept(presage: Presage, log: Path) -> None:
    assert presage("simulate", log, "--clean", "archive", "--out", "schedule.parquet").exit_code == 0
    stats = presage("trace", "stats", "schedule.parquet", "--json").document
    assert stats["mean_wait_s"] == 0


@pytest.mark.parametrize("policy", ["default", "look-ahead", "ours.safetensors", "ours"])
def test_policies_that_go_by_forecasts_are_simulated_too(presage: Presage, tmp_path: Path, policy: str) -> None:
    settings = {"users": 6, "processors": 32, "load": 0.9, "estimate": "modal"}
    trace = make_model("lublin", settings).generate(150, seed=1)
    choose_writer("log.parquet").write(trace, tmp_path / "log.parquet")
    LearnedPolicy("ours", watches=False).save(tmp_path / "ours.safetensors")
    (tmp_path / "ours").mkdir()  # a store in which nothing has taken over yet
    call = ("simulate", "log.parquet", "--policy", policy)
    result = presage(*call, "--out", "schedule.parquet", "--json")
    assert result.exit_code == 0, result.err
    told = result.document
    named = {"ours.safetensors": "ours", "ours": "default"}.get(policy, policy)
    assert (told["policy"], told["processors"], told["jobs"]) == (named, 32, 150)
    assert told["share_by_requests"] == 0
    kept = presage("simulate", "schedule.parquet", "--policy", "fcfs", "--json").document
    assert kept["jobs"] == 150
    assert named in presage(*call).out
    for options in (("--backfill", "conservative"), ("--placement", "first-fit"), ("--semantics", "commit"),
                    ("--order-by", "actual")):  # fmt: skip
        refused = presage(*call, *options)
        assert refused.exit_code == 2
        assert options[0] in refused.err


def test_a_rule_stays_one_beside_a_folder_of_its_name(presage: Presage, log: Path) -> None:
    call = ("simulate", log, "--clean", "archive", "--policy", "fcfs+easy", "--json")
    before = presage(*call).document
    Path("fcfs+easy").mkdir()
    assert presage(*call).document["mean_wait_s"] == before["mean_wait_s"]


def test_the_schedule_can_be_drawn(presage: Presage, log: Path) -> None:
    assert presage("simulate", log, "--clean", "archive", "--gantt", "gantt.png").exit_code == 0
    assert Path("gantt.png").read_bytes().startswith(b"\x89PNG")


def test_intervals_trims_and_promises_come_on_request(presage: Presage) -> None:
    made = ("--jobs", "400", "--processors", "64", "--load", "0.9", "--seed", "1", "--set", "users=5")
    assert presage("trace", "generate", "lublin", "log.swf", *made).exit_code == 0
    call = ("simulate", "log.swf", "--policy", "fcfs+easy")
    plain = presage(*call, "--json").document
    asked = (*call, "--warm-up", "10%", "--cool-down", "20", "--sla", "1h", "--intervals")
    whole = presage(*asked, "--json").document
    assessment = whole.pop("assessment")
    # What was there before stays as it was, of all jobs.
    assert {**whole, "jobs_per_s": 0} == {**plain, "jobs_per_s": 0}
    assert (assessment["jobs"], assessment["blocks"]) == (400 - 40 - 20, 20)
    late = assessment["metrics"]["late_share"]
    assert 0 <= late["low"] <= late["value"] <= late["high"] <= 1
    assert {"user_slowdown_gini", "user_slowdown_jain", "overwaited_share"} <= assessment["metrics"].keys()
    text = presage(*asked).out
    assert "340 jobs, with 95 % intervals" in text
    assert presage(*call, "--warm-up", "some").exit_code == 2


def test_jobs_can_be_placed_on_nodes(presage: Presage) -> None:
    made = ("--jobs", "100", "--seed", "1", "--set", "nodes=10", "--load", "0.9")
    assert presage("trace", "generate", "gpu-cluster", "gpus.parquet", *made).exit_code == 0
    named = presage("simulate", "gpus.parquet", "--policy", "fcfs+skip@best-fit", "--json").document
    options = ("--policy", "fcfs", "--backfill", "skip", "--placement", "best-fit")
    assert (named["policy"], named["nodes"], named["jobs"]) == ("fcfs+skip@best-fit", 10, 100)
    again = presage("simulate", "gpus.parquet", *options, "--json").document
    assert {**again, "jobs_per_s": 0} == {**named, "jobs_per_s": 0}
    assert "fcfs+none" not in presage("simulate", "gpus.parquet", "--placement", "first-fit").out


def test_semantics_and_partitions_are_options(presage: Presage) -> None:
    made = ("--jobs", "60", "--seed", "1", "--set", "nodes=10", "--load", "0.9")
    assert presage("trace", "generate", "gpu-cluster", "log.parquet", *made).exit_code == 0
    options = ("--policy", "sjf", "--semantics", "commit", "--processors", "5000")
    assert presage("simulate", "log.parquet", *options, "--json").document["semantics"] == "commit"


def test_partitions_are_measured_each(presage: Presage) -> None:
    Path("log.csv").write_text(
        "JobID|Partition|Submit|Start|End|State|ReqCPUS|AllocCPUS|Timelimit\n"
        "1|cpu|2024-03-04T09:00:00|2024-03-04T09:00:00|2024-03-04T10:00:00|COMPLETED|4|4|02:00:00\n"
        "2|gpu|2024-03-04T09:00:01|2024-03-04T09:00:01|2024-03-04T09:10:01|COMPLETED|2|2|02:00:00\n"
        "3|gpu|2024-03-04T09:00:02|2024-03-04T09:10:01|2024-03-04T09:20:01|COMPLETED|2|2|02:00:00\n"
    )
    call = ("simulate", "log.csv", "--partition", "cpu=4", "--partition", "gpu=2")
    document = presage(*call, "--json").document
    assert (document["processors"], document["jobs"], document["semantics"]) == (6, 3, "instant")
    assert {name: part["jobs"] for name, part in document["partitions"].items()} == {"cpu": 1, "gpu": 2}
    assert document["partitions"]["gpu"]["max_wait_s"] == 599
    assert "Partition gpu" in presage(*call).out
    for arguments, exit_code, message in (
        (["--partition", "cpu=4"], 3, "like 'gpu'"),
        (["--partition", "cpu=4", "--partition", "gpu=1"], 3, "its partition 'gpu' has 1"),
        (["--partition", "cpu"], 2, "NAME=PROCESSORS"),
        (["--partition", "cpu=4", "--processors", "4"], 2, "several ways"),
        (["--by-partition"], 3, "table of nodes"),
        (["--semantics", "events", "--processors", "4"], 2, "Did you mean 'event'?"),
        (["--semantics", "event", "--placement", "best-fit"], 2, "placed on nodes"),
    ):
        result = presage("simulate", "log.csv", *arguments)
        assert (result.exit_code, message in result.err) == (exit_code, True), result.err


def test_policies_are_listed_with_their_formulas(presage: Presage) -> None:
    document = presage("policies", "list", "--json").document
    formulas = {order["name"]: order["formula"] for order in document["orders"]}
    assert formulas["saf"] == "r·p"
    assert {entry["name"] for entry in document["backfillings"]} >= {"none", "easy", "easy-sjbf", "conservative"}
    assert [entry["name"] for entry in document["semantics"]] == ["instant", "event", "commit"]
    assert {entry["name"] for entry in document["cluster_orders"]} >= {"tiresias", "drf", "multifactor"}
    assert "wfp3" in presage("policies", "list").out


def test_conditions_and_preemption_need_only_a_log_and_nodes(presage: Presage, log: Path, tmp_path: Path) -> None:
    conditions = tmp_path / "conditions.toml"
    conditions.write_text("[checkpoints]\nevery_s = 60\n")
    common = ["simulate", log, "--clean", "archive", "--conditions", conditions]
    document = presage(*common, "--policy", "srtf", "--nodes", "4", "--json").document
    assert document["policy"] == "srtf+skip@first-fit"
    assert document["nodes"] == 4
    assert document["disruptions"]["never_started"] == 0
    assert "Disruptions" in presage(*common, "--policy", "tiresias").out
    conditions.write_text("[frogs]\n")
    result = presage(*common)
    assert result.exit_code == 5
    assert "frogs" in result.err
    assert presage("simulate", log, "--clean", "archive", "--nodes", "4").exit_code == 2


@pytest.mark.parametrize(
    ("arguments", "exit_code", "message"),
    [
        (["--policy", "sjff"], 2, "Did you mean 'sjf'?"),
        (["--backfill", "eazy"], 2, "Did you mean 'easy'?"),
        (["--placement", "bestfit"], 2, "Did you mean 'best-fit'?"),
        (["--clean", "archive", "--placement", "best-fit"], 3, "nodes"),
        (["--clean", "archiv"], 2, "Did you mean 'archive'?"),
        ([], 3, "--clean archive"),
        (["--clean", "archive", "--order-by", "user"], 2, "'user'"),
        (["--clean", "archive", "--out", "x.xls"], 2, "names no output format"),
    ],
)
def test_mistakes_are_answered(
    presage: Presage, log: Path, arguments: list[str], exit_code: int, message: str
) -> None:
    result = presage("simulate", log, *arguments)
    assert result.exit_code == exit_code
    assert message in result.err
