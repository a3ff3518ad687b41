from __future__ import annotations

import contextlib
import gzip
import json
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from presage.errors import UnreadableSourceError
from presage.testing import ReaderContract
from presage.traces import Source, Trace, detect, read_trace
from presage.traces.readers.kubernetes.objects import FieldError, Fields
from presage.traces.readers.kubernetes.quantities import amounts, gpu_types, quantity, requests

SAMPLE = Path(__file__).parents[2] / "fixtures" / "traces" / "kubernetes.json"
GIB = 2**30


class TestKubernetes(ReaderContract):
    format = "kubernetes"
    sample = SAMPLE
    jobs = 10
    line_based = False


def at(clock: str) -> str:
    return f"2025-03-03T{clock}Z"


def ms(clock: str) -> int:
    return int(datetime.fromisoformat(at(clock)).astimezone(UTC).timestamp() * 1000)


def pod(name: str, created: str = "08:00:00", **parts: Any) -> dict[str, Any]:
    """A pod; `meta`, `spec` and `status` are merged into it."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name, "namespace": "ns", "uid": f"uid-{name}", "creationTimestamp": at(created),
            **parts.get("meta", {}),
        },
        "spec": {"containers": [{"name": "main", "resources": {}}], **parts.get("spec", {})},
        "status": parts.get("status", {}),
    }  # fmt: skip


def scheduled(clock: str) -> dict[str, str]:
    return {"type": "PodScheduled", "status": "True", "lastTransitionTime": at(clock)}


def ended(clock: str, code: int = 0, reason: str = "") -> list[dict[str, Any]]:
    reason = reason or ("Error" if code else "Completed")
    state = {"terminated": {"exitCode": code, "reason": reason, "finishedAt": at(clock)}}
    return [{"name": "main", "restartCount": 0, "state": state}]


def owned_by(kind: str, name: str = "boss") -> dict[str, Any]:
    return {"ownerReferences": [{"kind": kind, "name": name, "uid": f"uid-{name}", "controller": True}]}


def event(reason: str, about: str, clock: str, **parts: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{about}.{reason}", "namespace": "ns"},
        "involvedObject": {"kind": "Pod", "namespace": "ns", "name": about, "uid": f"uid-{about}"},
        "reason": reason,
        "firstTimestamp": at(clock),
        **parts,
    }


def read(tmp_path: Path, *objects: dict[str, Any]) -> Trace:
    path = tmp_path / "objects.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)}))
    return read_trace(path)


def job(trace: Trace, job_id: str) -> dict[str, Any]:
    return trace.jobs.row(by_predicate=pl.col("job_id") == job_id, named=True)


def test_a_job_with_its_pods_is_one_job() -> None:
    trace = read_trace(SAMPLE)
    bert = job(trace, "ml/train-bert")
    assert bert["kind"] == "job"
    assert (bert["tasks"], bert["cpus_req"], bert["gpus_req"], bert["mem_req_bytes"]) == (2, 32.0, 8.0, 128 * GIB)
    assert (bert["submit_ms"], bert["eligible_ms"]) == (ms("08:00:00"), ms("08:10:00"))
    assert (bert["start_ms"], bert["end_ms"]) == (ms("08:10:30"), ms("10:00:00"))
    assert (bert["wait_s"], bert["run_s"]) == (630.0, 6570.0)
    assert bert["x_all_started_ms"] == ms("08:41:00")
    assert (bert["outcome"], bert["restarts"], bert["limit_s"]) == ("completed", 1, 14_400.0)
    assert (bert["user"], bert["account"], bert["queue"], bert["priority"]) == ("ana", "ml", "research", 1000.0)
    assert (bert["gpu_type_req"], bert["gpu_type"]) == ("NVIDIA-H100-80GB-HBM3", "NVIDIA-H100-80GB-HBM3")


def test_pods_of_a_gang_are_attempts_by_index() -> None:
    attempts = read_trace(SAMPLE).attempts.filter(pl.col("job_id") == "ml/train-bert").to_dicts()
    assert [(row["task"], row["attempt"], row["outcome"], row["exit_code"]) for row in attempts] == [
        (0, 0, "out_of_memory", 137),
        (0, 1, "completed", 0),
        (1, 0, "completed", 0),
    ]
    assert (attempts[0]["queued_ms"], attempts[0]["start_ms"]) == (ms("08:10:00"), ms("08:10:20"))
    assert attempts[0]["end_ms"] == ms("08:40:00")
    assert attempts[0]["gpus"] == 4.0


def test_jobs_without_pods_tell_what_they_know() -> None:
    trace = read_trace(SAMPLE)
    report = job(trace, "finance/report")
    assert (report["outcome"], report["limit_s"], report["start_ms"]) == ("timeout", 600.0, None)
    assert report["end_ms"] == ms("07:10:00")
    nightly = job(trace, "ml/nightly")
    assert (nightly["outcome"], nightly["status"]) == ("pending", "Suspended")
    assert (nightly["tasks"], nightly["x_completions"], nightly["cpus_req"]) == (4, 20, 8.0)


def test_a_failed_job_died_of_its_last_failed_pod() -> None:
    etl = job(read_trace(SAMPLE), "ml/etl")
    assert (etl["outcome"], etl["exit_code"], etl["status"]) == ("failed", 3, "Failed/BackoffLimitExceeded")
    assert etl["x_owner"] == "CronJob/etl-nightly"
    assert (etl["start_ms"], etl["end_ms"]) == (ms("09:02:11"), ms("09:05:00"))


def test_a_jobs_size_is_that_of_its_pods_where_there_are_any(tmp_path: Path) -> None:
    template = {"spec": {"containers": [container("1")]}}
    boss = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "boss", "namespace": "ns", "uid": "uid-boss"},
        "spec": {"parallelism": 3, "template": template},
    }
    member = pod("a", meta=owned_by("Job"), spec={"containers": [container("2")], "priority": 7})
    alone, together = job(read(tmp_path, boss), "ns/boss"), job(read(tmp_path, boss, member), "ns/boss")
    assert (alone["cpus_req"], alone["priority"]) == (3.0, None)
    assert (together["cpus_req"], together["priority"]) == (6.0, 7.0)


def test_services_and_bare_pods_are_jobs_of_their_own() -> None:
    trace = read_trace(SAMPLE)
    kinds = {row["name"]: row["kind"] for row in trace.jobs.iter_rows(named=True)}
    assert kinds["web-7d9f-abcde"] == kinds["agent-q2w3e"] == "service"
    assert kinds["notebook-alice"] == "pod"
    notebook = job(trace, "ml/notebook-alice")
    assert (notebook["gpus_req"], notebook["cpus_req"], notebook["mem_req_bytes"]) == (1.0, 4.0, 16 * 10**9)
    assert (notebook["user"], notebook["restarts"], notebook["outcome"]) == ("alice", 2, "running")


def test_a_bound_pod_that_pulls_its_image_runs_already() -> None:
    fresh = job(read_trace(SAMPLE), "ml/fresh")
    assert (fresh["outcome"], fresh["status"], fresh["wait_s"]) == ("running", "Pending", 2.0)
    assert fresh["x_container_start_ms"] is None


def test_events_fill_what_an_evicted_pod_no_longer_says() -> None:
    evicted = job(read_trace(SAMPLE), "ml/scratch")
    assert (evicted["outcome"], evicted["status"]) == ("preempted", "Failed/Evicted")
    assert (evicted["start_ms"], evicted["end_ms"]) == (ms("08:20:04"), ms("08:50:04"))


def test_pods_known_from_events_only_are_counted_and_not_made_up() -> None:
    trace = read_trace(SAMPLE)
    assert trace.manifest.counts["pods_only_in_events"] == 1
    assert "gone" not in trace.jobs["name"].to_list()
    assert job(trace, "ml/too-big")["x_failed_schedulings"] == 12


def test_nodes_offer_what_they_can_allocate() -> None:
    trace = read_trace(SAMPLE)
    gpu_node = trace.nodes.row(by_predicate=pl.col("node_id") == "gpu-a", named=True)
    assert (gpu_node["cpus"], gpu_node["mem_bytes"], gpu_node["gpus"]) == (127.5, 1000 * GIB, 8.0)
    assert (gpu_node["node_type"], gpu_node["rack"]) == ("hgx-8", "r07")
    assert gpu_node["gpu_mem_bytes"] == 81_559 * 2**20
    assert "topology.kubernetes.io/zone=hall-2" in gpu_node["features"]
    assert trace.manifest.machine.gpus == 8.0


@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        ({"phase": "Succeeded", "containerStatuses": ended("09:00:00")}, "completed"),
        ({"phase": "Failed", "containerStatuses": ended("09:00:00", 1)}, "failed"),
        ({"phase": "Failed", "containerStatuses": ended("09:00:00", 137, "OOMKilled")}, "out_of_memory"),
        ({"phase": "Failed", "containerStatuses": ended("09:00:00", 137)}, "failed"),
        ({"phase": "Failed", "reason": "DeadlineExceeded"}, "timeout"),
        ({"phase": "Failed", "reason": "Preempting"}, "preempted"),
        ({"phase": "Failed", "reason": "NodeLost"}, "node_failure"),
        ({"phase": "Failed", "reason": "Terminated"}, "node_failure"),
        ({"phase": "Failed", "conditions": [
            {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}]}, "preempted"),
        ({"phase": "Failed", "conditions": [
            {"type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager"}]}, "node_failure"),
        ({"phase": "Pending"}, "pending"),
        ({"phase": "Unknown"}, None),
        ({"phase": "Unknown", "reason": "NodeLost"}, "node_failure"),
    ],
)  # fmt: skip
def test_outcomes_of_pods(tmp_path: Path, status: dict[str, Any], outcome: str | None) -> None:
    assert read(tmp_path, pod("p", status=status)).jobs["outcome"].to_list() == [outcome]


def test_an_exit_by_signal_names_the_signal(tmp_path: Path) -> None:
    status = {"phase": "Failed", "containerStatuses": ended("09:00:00", 143)}
    row = job(read(tmp_path, pod("p", status=status)), "ns/p")
    assert (row["exit_code"], row["signal"]) == (143, 15)


def test_a_preempted_pod_in_its_grace_period_has_ended(tmp_path: Path) -> None:
    victim = pod("p", spec={"nodeName": "n1"}, status={"phase": "Running", "conditions": [scheduled("08:00:05")]})
    row = job(read(tmp_path, victim, event("Preempted", "p", "08:30:00")), "ns/p")
    assert (row["outcome"], row["run_s"]) == ("preempted", 1795.0)


def test_an_init_container_that_ended_is_not_the_end_of_the_pod(tmp_path: Path) -> None:
    status = {
        "phase": "Failed",
        "conditions": [scheduled("08:00:05")],
        "initContainerStatuses": ended("08:00:30"),
        "containerStatuses": [{"name": "main", "restartCount": 0, "state": {"waiting": {"reason": "Gone"}}}],
    }
    victim = pod("p", spec={"nodeName": "n1"}, status=status)
    preempted = job(read(tmp_path, victim, event("Preempted", "p", "08:30:05")), "ns/p")
    assert (preempted["outcome"], preempted["run_s"]) == ("preempted", 1800.0)
    assert job(read(tmp_path, victim), "ns/p")["run_s"] == 25.0


def test_events_are_found_by_name_where_they_give_no_uid(tmp_path: Path) -> None:
    about = {"kind": "Pod", "namespace": "ns", "name": "p"}
    message = "Successfully assigned ns/p to n7"
    bound = event("Scheduled", "p", "08:00:09", involvedObject=about, message=message)
    row = job(read(tmp_path, pod("p", status={"phase": "Running"}), bound), "ns/p")
    assert (row["start_ms"], row["node_list"]) == (ms("08:00:09"), ["n7"])


def test_a_replacement_takes_the_place_of_the_pod_that_failed(tmp_path: Path) -> None:
    def member(name: str, created: str, end: str, code: int) -> dict[str, Any]:
        phase = "Failed" if code else "Succeeded"
        status = {"phase": phase, "conditions": [scheduled(created)], "containerStatuses": ended(end, code)}
        return pod(name, created, meta=owned_by("Job"), status=status)

    trace = read(
        tmp_path,
        member("a", "08:00:00", "09:00:00", 0),
        member("b", "08:00:00", "08:20:00", 1),
        member("c", "08:20:10", "08:40:00", 2),
        member("d", "08:40:10", "09:30:00", 0),
    )
    rows = [(row["task"], row["attempt"], row["queued_ms"]) for row in trace.attempts.iter_rows(named=True)]
    assert rows == [
        (0, 0, ms("08:00:00")),
        (1, 0, ms("08:00:00")),
        (1, 1, ms("08:20:10")),
        (1, 2, ms("08:40:10")),
    ]
    gang = job(trace, "ns/boss")
    assert (gang["tasks"], gang["outcome"], gang["restarts"]) == (2, "completed", 2)
    assert (gang["submit_ms"], gang["end_ms"]) == (ms("08:00:00"), ms("09:30:00"))
    assert trace.manifest.counts["gangs_without_owner"] == 1


@pytest.mark.parametrize(
    ("meta", "kind", "tasks"),
    [
        (owned_by("PyTorchJob"), "PyTorchJob", 2),
        ({"labels": {"kueue.x-k8s.io/pod-group-name": "g"}}, "pod-group", 2),
        (owned_by("Workflow"), "Workflow", 1),
        (owned_by("StatefulSet"), "service", 1),
    ],
)
def test_pods_belong_together_as_their_owner_says(
    tmp_path: Path, meta: dict[str, Any], kind: str, tasks: int
) -> None:
    asks = {"containers": [{"name": "w", "resources": {"limits": {"cpu": "3", "amd.com/gpu": 2}}}]}
    trace = read(tmp_path, pod("w0", meta=meta, spec=asks), pod("w1", meta=meta, spec=asks))
    assert trace.jobs["kind"].unique().to_list() == [kind]
    assert trace.jobs["tasks"].to_list() == [tasks] * (2 // tasks)
    assert trace.jobs["gpus_req"].sum() == 4.0
    assert trace.jobs["cpus_req"].sum() == 6.0


def test_a_gang_runs_while_one_member_runs(tmp_path: Path) -> None:
    meta = owned_by("MPIJob")
    done = {"phase": "Succeeded", "conditions": [scheduled("08:00:01")], "containerStatuses": ended("08:10:00")}
    busy = {"phase": "Running", "conditions": [scheduled("08:05:00")]}
    row = job(read(tmp_path, pod("a", meta=meta, status=done), pod("b", meta=meta, status=busy)), "ns/boss")
    assert (row["outcome"], row["end_ms"]) == ("running", None)
    assert (row["start_ms"], row["x_all_started_ms"]) == (ms("08:00:01"), ms("08:05:00"))


def test_files_given_together_are_one_trace(tmp_path: Path) -> None:
    whole = read_trace(SAMPLE)
    items = json.loads(SAMPLE.read_text())["items"]
    paths = []
    for kind in ("Pod", "Job", "Event", "Node"):
        path = tmp_path / f"{kind}.json"
        members = [item for item in items if item["kind"] == kind]
        path.write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": members}))
        paths.append(path)
    parts = read_trace(*paths)
    assert parts.jobs.equals(whole.jobs)
    assert parts.attempts.equals(whole.attempts)
    assert parts.nodes.equals(whole.nodes)
    assert [source.rows for source in parts.manifest.sources] == [11, 4, 5, 2]


def test_the_newest_version_of_an_object_counts(tmp_path: Path) -> None:
    old = pod("p", meta={"resourceVersion": "99"}, status={"phase": "Pending"})
    new = pod("p", meta={"resourceVersion": "100"}, status={"phase": "Succeeded"})
    for objects in ((old, new), (new, old)):
        assert read(tmp_path, *objects).jobs["outcome"].to_list() == ["completed"]


def test_a_watch_tells_deletions(tmp_path: Path) -> None:
    running = {"phase": "Running", "conditions": [scheduled("08:00:02")]}
    events = [
        {"type": "ADDED", "object": pod("p", status={"phase": "Pending"})},
        {"type": "MODIFIED", "object": pod("p", status=running)},
        {"type": "BOOKMARK", "object": {"kind": "Pod", "metadata": {}}},
        {"type": "DELETED", "object": pod("p", meta={"deletionTimestamp": at("08:40:02")}, status=running)},
        {"type": "ERROR", "object": {"kind": "Status", "code": 410}},
    ]
    stream = tmp_path / "watch.json"
    stream.write_text("\n".join(json.dumps(entry) for entry in events))
    assert detect(Source(stream)) == "kubernetes"
    trace = read_trace(stream)
    row = job(trace, "ns/p")
    assert (row["outcome"], row["run_s"]) == ("cancelled", 2400.0)
    assert trace.rejects["line"].to_list() == [5]


def test_damage_in_a_stream_costs_one_object(tmp_path: Path) -> None:
    stream = tmp_path / "watch.json"
    whole = [json.dumps(pod(name), indent=4) for name in ("a", "b", "c")]
    stream.write_text("\n".join([whole[0], whole[1][:90], whole[2], '{"kind": "Pod", "metad']))
    trace = read_trace(stream)
    assert trace.jobs["name"].to_list() == ["a", "c"]
    first_bad = whole[0].count("\n") + 2
    last_bad = first_bad + whole[1][:90].count("\n") + 1 + whole[2].count("\n") + 1
    assert trace.rejects["line"].to_list() == [first_bad, last_bad]


def test_a_cut_list_is_a_clear_error(tmp_path: Path) -> None:
    cut = tmp_path / "pods.json"
    cut.write_text(SAMPLE.read_text()[:2000])
    with pytest.raises(UnreadableSourceError, match="not a whole JSON document"):
        read_trace(cut)


def test_objects_with_unreadable_fields_are_rejected_by_name(tmp_path: Path) -> None:
    asks = {"containers": [{"name": "main", "resources": {"requests": {"cpu": "many"}}}]}
    trace = read(
        tmp_path,
        pod("good"),
        pod("greedy", spec=asks),
        pod("late", meta={"creationTimestamp": "soon"}),
        pod("odd", status={"conditions": "none"}),
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "ns"}},
    )
    assert trace.jobs["name"].to_list() == ["good"]
    assert trace.rejects["reason"].to_list() == [
        "Pod ns/greedy: 'many' is not a quantity",
        "Pod ns/late: metadata.creationTimestamp: 'soon' is not a time",
        "Pod ns/odd: status.conditions is not a list",
        "Pod ns/None: metadata.name is missing",
    ]


def test_objects_of_other_kinds_are_counted(tmp_path: Path) -> None:
    volcano = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": "v"}}
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "c"}}
    trace = read(tmp_path, pod("p"), volcano, claim)
    assert len(trace) == 1
    assert trace.manifest.counts["objects_ignored"] == 2


def test_a_pod_and_a_job_may_share_a_name(tmp_path: Path) -> None:
    twin = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "p", "namespace": "ns", "uid": "u2"}}
    assert sorted(read(tmp_path, pod("p"), twin).jobs["job_id"]) == ["ns/p", "ns/p@u2"]


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("250m", "0.25"), ("1.5", "1.5"), ("2Gi", str(2 * GIB)), ("500M", "500000000"), ("1e3", "1000"),
        ("128974848", "128974848"), (4, "4"), (0.5, "0.5"), ("8E", "8000000000000000000"), ("1E2", "100"),
        ("5k", "5000"), ("3Ki", "3072"), ("10u", "0.00001"), ("7n", "0.000000007"), ("+2", "2"), (".5", "0.5"),
    ],
)  # fmt: skip
def test_quantities(text: object, amount: str) -> None:
    assert quantity(text) == Decimal(amount)


@pytest.mark.parametrize(
    "text", ["", "x", "1.2.3", "-1", "12E", "1 Gi", "1Gb", "1e999", "9" * 50, None, True, [], "NaN"]
)
def test_what_is_no_quantity(text: object) -> None:
    with pytest.raises(FieldError):
        quantity(text)


@given(st.text(max_size=12) | st.floats() | st.integers())
def test_any_quantity_is_read_or_refused(value: object) -> None:
    with contextlib.suppress(FieldError):
        assert 0 <= quantity(value) < 2**63


def container(cpu: str, **more: Any) -> dict[str, Any]:
    return {"resources": {"requests": {"cpu": cpu}}, **more}


def test_requests_follow_the_scheduler() -> None:
    spec = Fields(
        {
            "containers": [container("1"), container("500m")],
            "initContainers": [
                container("2"),
                container("250m", restartPolicy="Always"),
                container("3"),
            ],
            "overhead": {"cpu": "100m"},
        }
    )
    # Together 1.5 + 0.25 for the sidecar; the last step of initialisation needs 3 + 0.25.
    assert requests(spec)["cpu"] == Decimal("3.35")


def test_a_request_for_the_whole_pod_replaces_the_sum() -> None:
    spec = Fields({"containers": [container("1"), container("1")], "resources": {"requests": {"cpu": "5"}}})
    assert requests(spec)["cpu"] == Decimal(5)


def test_a_limit_without_request_is_the_request() -> None:
    limits = {"resources": {"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "1"}}}
    assert requests(Fields({"containers": [limits]})) == {"cpu": Decimal(1), "memory": Decimal(GIB)}


@pytest.mark.parametrize(
    ("resources", "tags", "gpus"),
    [
        ({"nvidia.com/gpu": Decimal(2)}, {}, 2.0),
        ({"nvidia.com/mig-1g.10gb": Decimal(7)}, {}, 1.0),
        ({"nvidia.com/mig-2g.12gb": Decimal(1)}, {}, 0.5),
        ({}, {"alibabacloud.com/gpu-count": "1", "alibabacloud.com/gpu-milli": "460"}, 0.46),
        ({}, {"alibabacloud.com/gpu-count": "4", "alibabacloud.com/gpu-milli": "1000"}, 4.0),
        ({}, {"gpu-fraction": "0.25"}, 0.25),
        ({"cpu": Decimal(1)}, {}, 0.0),
    ],
)
def test_gpus_under_their_many_names(resources: dict[str, Decimal], tags: dict[str, str], gpus: float) -> None:
    assert amounts(resources, tags).gpus == pytest.approx(gpus)


def test_gpu_types_come_from_selector_affinity_or_annotation() -> None:
    terms = [
        {"matchExpressions": [{"key": "nvidia.com/gpu.product", "operator": "In", "values": ["A100", "H100"]}]}
    ]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    assert gpu_types(Fields({"affinity": {"nodeAffinity": required}}), {}, {}) == "A100|H100"
    assert gpu_types(Fields({"nodeSelector": {"cloud.google.com/gke-accelerator": "l4"}}), {}, {}) == "l4"
    assert gpu_types(Fields({}), {"alibabacloud.com/gpu-card-model": "T4|P100"}, {}) == "T4|P100"
    assert gpu_types(Fields({}), {}, {}) is None


@pytest.mark.shared_data
def test_real_node_objects_are_read(shared_data: Path, tmp_path: Path) -> None:
    yaml = pytest.importorskip("yaml")
    text = gzip.decompress((shared_data / "openb" / "openb_node_list_gpu_node.yaml.gz").read_bytes())
    documents = [node for node in yaml.load_all(text, Loader=yaml.CSafeLoader) if node]
    nodes = tmp_path / "nodes.json"
    nodes.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": documents}))
    trace = read_trace(nodes)
    csv = read_trace(shared_data / "openb" / "openb_node_list_gpu_node.csv.gz")
    columns = ["node_id", "cpus", "mem_bytes", "gpus", "gpu_type"]
    assert trace.nodes.select(columns).equals(csv.nodes.select(columns))
