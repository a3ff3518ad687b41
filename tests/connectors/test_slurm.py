from __future__ import annotations

import contextlib
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any, ClassVar

import pytest

from presage.connectors import CONNECTORS, Connector, Submission
from presage.connectors.slurm import SlurmConnector
from presage.connectors.slurm.commands import SlurmCommands
from presage.connectors.slurm.history import FIELDS, history, on_lines
from presage.connectors.slurm.jobs import QUEUE_FIELDS, find, statuses
from presage.connectors.slurm.scripts import make_options
from presage.errors import (
    ClusterBusyError,
    ClusterRefusedError,
    ClusterTimeoutError,
    ClusterUnreachableError,
    CommandMissingError,
    ConnectorError,
    PresageError,
    UsageError,
)
from presage.testing.connectors import ConnectorContract
from presage.testing.slurm import SlurmCluster, missing_for_slurm
from presage.traces.schema import Outcome

MIB = 2**20
RATE = 20
NODES = 2
needs_slurm = pytest.mark.skipif(bool(missing_for_slurm()), reason=missing_for_slurm() or "Slurm is here")


@pytest.fixture(scope="module")
def cluster() -> Iterator[SlurmCluster]:
    intervals = {"bf_interval": 10, "sched_interval": 10, "sched_min_interval": 0}
    memory = {"SelectTypeParameters": "CR_CPU_Memory", "DefMemPerCPU": 100}
    with SlurmCluster(nodes=NODES, cpus=2, rate=RATE, parameters=intervals, config=memory) as slurm:
        yield slurm


@needs_slurm
@pytest.mark.slow
class TestSlurm(ConnectorContract):
    kind: ClassVar[str] = "slurm"
    fill: ClassVar[dict[str, Any]] = {"nodes": NODES, "cores_per_node": 2, "walltime_s": 36_000.0}
    too_much: ClassVar[dict[str, Any]] = {"partition": "nowhere"}
    limit_s = 120.0

    @pytest.fixture
    def connector(self, cluster: SlurmCluster) -> Iterator[SlurmConnector]:
        yield SlurmConnector(cluster.environment, timeout_s=30)
        cluster.run(["scancel", "--quiet", *(cluster.run(["squeue", "-h", "-o", "%A"]).split() or ["1"])])

    def another(self, connector: Connector) -> Connector:
        assert isinstance(connector, SlurmConnector)
        return SlurmConnector(connector.commands.environment)

    def test_starts_are_estimated(self, connector: SlurmConnector, cluster: SlurmCluster, tmp_path: Path) -> None:
        now = datetime.fromtimestamp(cluster.now_s(), UTC)
        running = connector.submit(self.submission(tmp_path, "sleep 100000", **self.fill))
        self.wait_to_run(connector, running)
        short = self.submission(tmp_path, "true", nodes=2, walltime_s=600, environment={"TZ": "Asia/Tokyo"})
        estimate = connector.start_estimate(short)
        assert estimate is not None
        assert timedelta(seconds=36_000 - 600) < estimate - now < timedelta(seconds=36_000 + 1200)
        waiting = connector.submit(short)
        assert set(connector.expected_starts([waiting, running, "99999", "nonsense"])) <= {waiting}

    def test_the_clock_of_the_connector_is_not_the_jobs(self, connector: SlurmConnector, tmp_path: Path) -> None:
        script = 'echo "${TZ-none} ${SLURM_TIME_FORMAT-none} ${GIVEN-none}"'
        for environment, given in (({}, "none"), ({"GIVEN": "yes"}, "yes")):
            status = self.run(connector, self.submission(tmp_path, script, environment=environment))
            self.assert_written(tmp_path / f"output-{status.job_id}.txt", f"none none {given}\n")

    def test_a_program_that_was_killed_counts_as_out_of_memory(
        self, connector: SlurmConnector, tmp_path: Path
    ) -> None:
        status = self.run(connector, self.submission(tmp_path, "sh -c 'kill -KILL $$'", memory_bytes=50 * MIB))
        assert (status.state, status.exit_code) == (Outcome.OUT_OF_MEMORY, 137)
        assert "137" in status.reason
        assert status.memory_bytes == 50 * MIB

    def test_a_failing_node_is_no_failure_of_the_job(
        self, connector: SlurmConnector, cluster: SlurmCluster, tmp_path: Path
    ) -> None:
        job_id = connector.submit(self.submission(tmp_path, "sleep 100000", requeue=False))
        self.wait_to_run(connector, job_id)
        node = cluster.run(["squeue", "-h", "-j", job_id, "-o", "%N"]).strip()
        cluster.run(["scontrol", "update", f"nodename={node}", "state=down", "reason=test"])
        assert self.finish(connector, job_id).state is Outcome.NODE_FAILURE
        with contextlib.suppress(PresageError):  # it may be back by itself
            cluster.run(["scontrol", "update", f"nodename={node}", "state=resume"])

    def test_without_accounting_there_is_no_history_and_that_is_said(self, connector: SlurmConnector) -> None:
        with pytest.raises(ClusterRefusedError, match="keeps no records"):
            connector.history(datetime(2026, 1, 1, tzinfo=UTC))

    def test_what_there_is_is_discovered(self, connector: SlurmConnector) -> None:
        system = connector.discover()
        assert system.name == "virtual"
        (node_type,) = system.node_types
        assert (node_type.cores, node_type.count, node_type.memory_bytes) == (2, NODES, 1000 * MIB)
        (partition,) = system.partitions
        assert (partition.name, partition.limits.max_nodes, partition.limits.max_walltime_s) == ("main", 2, None)

    def test_output_goes_where_it_is_wanted(self, connector: SlurmConnector, tmp_path: Path) -> None:
        submission = self.submission(tmp_path, "echo here", output=str(tmp_path / "100%% %x of %j"))
        status = self.run(connector, submission)
        self.assert_written(tmp_path / f"100% %x of {status.job_id}", "here\n")


class Scripted(SlurmCommands):
    """Commands that answer from a script and remember what they were asked."""

    def __init__(self, **answers: str | ConnectorError) -> None:
        super().__init__({})
        object.__setattr__(self, "answers", answers)
        object.__setattr__(self, "calls", [])

    def run(self, program: str, *arguments: str) -> str:
        self.calls.append((program, *arguments))  # type: ignore[attr-defined]
        answer = self.answers.get(program, "")  # type: ignore[attr-defined]
        if isinstance(answer, ConnectorError):
            raise answer
        return str(answer)


def queue_line(**cells: str) -> str:
    """Return a line of squeue; `tres` and so on stand for the fields of that beginning."""
    usual = {"Partition": "main", "NumNodes": "1", "TimeLimit": "1:00:00", "SubmitTime": "1800000000"}
    filled = {**usual, **cells}
    return "".join(filled.get(name, "").ljust(width) for name, width in QUEUE_FIELDS.items())


def record_line(job_id: str, state: str, code: str, **cells: str) -> str:
    names = ("Submit", "Start", "End", "Partition", "NNodes", "AllocCPUS", "ReqMem", "MaxRSS", "Limit", "Comment")
    usual = {
        "Submit": "1800000000",
        "Start": "1800000010",
        "End": "1800000100",
        "Partition": "main",
        "NNodes": "2",
    }
    filled = {**usual, "AllocCPUS": "8", "Limit": "60", **cells}
    return "|".join([job_id, state, code, *(filled.get(name, "") for name in names)])


NO_RECORDS = ClusterRefusedError("sacct failed: Slurm accounting storage is disabled")


def test_any_number_of_jobs_takes_two_commands() -> None:
    ids = [str(number) for number in range(1, 3001)]
    queue = "\n".join(queue_line(JobID=job_id, State="RUNNING", StartTime="1800000009") for job_id in ids[:2000])
    records = "\n".join(record_line(job_id, "COMPLETED", "0:0") for job_id in ids[2000:])
    commands = Scripted(squeue=queue, sacct=records)
    found = statuses(commands, ids)
    assert len(found) == 3000
    assert [call[0] for call in commands.calls] == ["squeue", "sacct"]  # type: ignore[attr-defined]
    asked = next(word for word in commands.calls[1] if word.startswith("--jobs="))  # type: ignore[attr-defined]
    assert "2001" in asked
    assert "1999" not in asked


def test_running_jobs_alone_take_one_command() -> None:
    commands = Scripted(squeue=queue_line(JobID="5", State="RUNNING"))
    statuses(commands, ["5"])
    statuses(commands, ["nonsense"])
    assert [call[0] for call in commands.calls] == ["squeue"]  # type: ignore[attr-defined]


def test_records_tell_what_a_job_used() -> None:
    text = "\n".join(
        [
            record_line("7", "COMPLETED", "0:0", ReqMem="8G", Comment="presage:key=k.1 a|b"),
            record_line("7.batch", "COMPLETED", "0:0", MaxRSS="500K", Partition=""),
            record_line("7.0", "COMPLETED", "0:0", MaxRSS="1.5G", Partition=""),
            "half a line",
        ]
    )
    job = statuses(Scripted(sacct=text), ["7"])["7"]
    assert (job.state, job.key, job.nodes, job.walltime_s) == (Outcome.COMPLETED, "k.1", 2, 3600.0)
    assert job.start_time == datetime.fromtimestamp(1_800_000_010, UTC)
    assert job.max_rss_bytes == 1536 * MIB
    assert job.memory_bytes == 4096 * MIB  # of the 8 GiB that the job has on two nodes


@pytest.mark.parametrize(
    ("asked", "per_node"), [("4Gn", 4096), ("1Gc", 4096), ("8G", 4096), ("", None), ("0n", None)]
)
def test_memory_is_that_of_a_node_however_it_was_asked_for(asked: str, per_node: int | None) -> None:
    job = statuses(Scripted(sacct=record_line("7", "RUNNING", "0:0", ReqMem=asked)), ["7"])["7"]
    assert job.memory_bytes == (per_node * MIB if per_node else None)


@pytest.mark.parametrize(
    ("state", "code", "peak", "expected"),
    [
        ("OUT_OF_MEMORY", "0:125", "", Outcome.OUT_OF_MEMORY),
        ("FAILED", "0:9", "4.1G", Outcome.OUT_OF_MEMORY),
        ("FAILED", "0:9", "3.9G", Outcome.FAILED),
        ("FAILED", "0:9", "", Outcome.FAILED),
        ("FAILED", "137:0", "", Outcome.OUT_OF_MEMORY),
        ("FAILED", "9:0", "4.1G", Outcome.OUT_OF_MEMORY),
        ("FAILED", "9:0", "1G", Outcome.FAILED),
        ("FAILED", "1:0", "4.1G", Outcome.FAILED),
        ("CANCELLED by 1000", "0:9", "4.1G", Outcome.CANCELLED),
        ("TIMEOUT", "0:0", "4.1G", Outcome.TIMEOUT),
        ("NODE_FAIL", "0:0", "", Outcome.NODE_FAILURE),
        ("PREEMPTED", "0:0", "", Outcome.PREEMPTED),
        ("DEADLINE", "0:0", "", Outcome.CANCELLED),
    ],
)
def test_out_of_memory_is_recognised_in_its_disguises(state: str, code: str, peak: str, expected: Outcome) -> None:
    lines = [record_line("7", state, code, ReqMem="8G"), record_line("7.batch", "CANCELLED", code, MaxRSS=peak)]
    assert statuses(Scripted(sacct="\n".join(lines)), ["7"])["7"].state is expected


def test_until_the_accounting_knows_of_an_end_the_controller_is_believed() -> None:
    ended = queue_line(
        JobID="7", State="FAILED", exit_code=str(137 << 8), StartTime="1800000010", EndTime="1800000020",
        Reason="NonZeroExitCode", Comment="presage:key=k1 x", NumNodes="2",
        **{"tres-alloc": "cpu=4,mem=8G,node=2"},
    )  # fmt: skip
    late = statuses(Scripted(squeue=ended, sacct=record_line("7", "RUNNING", "0:0", End="Unknown")), ["7"])["7"]
    absent = statuses(Scripted(squeue=ended, sacct=NO_RECORDS), ["7"])["7"]
    missing = statuses(Scripted(squeue=ended, sacct=CommandMissingError("no sacct")), ["7"])["7"]
    assert late == absent == missing
    assert (late.state, late.exit_code, late.signal, late.key) == (Outcome.OUT_OF_MEMORY, 137, None, "k1")
    assert late.memory_bytes == 4096 * MIB
    # The accounting drops a bit of the code and the key, and may know no partition and no nodes yet.
    record = record_line("7", "FAILED", "9:0", Partition="", NNodes="0", MaxRSS="1G", ReqMem="8G")
    known = statuses(Scripted(squeue=ended, sacct=record), ["7"])["7"]
    assert known.nodes == 2
    assert (known.exit_code, known.key, known.max_rss_bytes) == (137, "k1", 1024 * MIB)
    assert known.partition is not None


def test_an_accounting_that_does_not_answer_is_an_error() -> None:
    with pytest.raises(ClusterUnreachableError):
        statuses(Scripted(sacct=ClusterUnreachableError("nobody")), ["7"])


def test_a_waiting_job_has_no_start_whatever_is_expected() -> None:
    times = {"StartTime": "1800009999", "EndTime": "1800099999"}
    waiting = queue_line(JobID="7", State="PENDING", Reason="Priority", **times)
    cancelled = queue_line(JobID="8", State="CANCELLED", StartTime="1800000000", EndTime="1800000000")
    found = statuses(Scripted(squeue=f"{waiting}\n{cancelled}\nnonsense", sacct=NO_RECORDS), ["7", "8"])
    assert (found["7"].start_time, found["7"].end_time, found["7"].reason) == (None, None, "Priority")
    assert (found["8"].start_time, found["8"].state) == (None, Outcome.CANCELLED)


def test_a_forgotten_job_is_found_by_the_line_that_submitted_it() -> None:
    lines = (
        "7||sbatch --comment=presage:key=k1 x.sh a\nb\n8||sbatch --comment=presage:key=k12 y.sh\n9|presage:key=k1|"
    )
    assert find(Scripted(sacct=lines), "k1") == "9"
    assert find(Scripted(sacct=lines), "k12") == "8"
    assert find(Scripted(sacct="99+1|presage:key=k1|\n100|presage:key=k1|"), "k1") == "100"
    assert find(Scripted(sacct=NO_RECORDS), "k1") is None
    two = [queue_line(JobID=job_id, State="PENDING", Comment="presage:key=k1") for job_id in ("9", "10")]
    assert find(Scripted(squeue="\n".join(two)), "k1") == "10"


def test_records_with_line_ends_and_bars_stay_whole() -> None:
    d = "\x1f"
    text = f"A{d}B{d}C\n1{d}two\nlines{d}x|y\nz\n2{d}b{d}c\n"
    assert on_lines(text, 3) == "A|B|C\n1|two lines|x¦y z\n2|b|c\n"


def test_history_is_a_trace() -> None:
    names = (*FIELDS, "SubmitLine")
    told = {
        "JobID": "5", "User": "ann", "State": "COMPLETED", "Submit": "1800000000", "Start": "1800000060",
        "End": "1800000160", "NNodes": "1", "ExitCode": "0:0", "Timelimit": "00:10:00",
        "JobName": "two\nlines | a bar", "SubmitLine": "sbatch x.sh 'a\nb'",
    }  # fmt: skip
    rows = [names, [told.get(name, "") for name in names]]
    text = "".join("\x1f".join(row) + "\n" for row in rows)
    commands = Scripted(sacct=text)
    trace = history(commands, datetime(2027, 1, 1, 1, tzinfo=timezone(timedelta(hours=1))), "ann")
    assert trace.jobs.select("job_id", "wait_s", "run_s", "limit_s").rows() == [("5", 60.0, 100.0, 600.0)]
    assert trace.jobs["name"].to_list() == ["two lines ¦ a bar"]
    assert len(trace.rejects) == 0
    assert {"--user=ann", "--starttime=2027-01-01T00:00:00"} <= set(commands.calls[0])  # type: ignore[attr-defined]
    header = "\x1f".join(names) + "\n"
    assert len(history(Scripted(sacct=header), datetime(2027, 1, 1, tzinfo=UTC))) == 0


def test_options_say_what_was_asked_for() -> None:
    submission = Submission(
        "k", "a name", "#!/bin/sh\n", partition="gpu", account="lab", nodes=2, tasks_per_node=4, cores_per_node=10,
        gpus_per_node=2, gpu_type="a100", memory_bytes=10 * MIB + 1, walltime_s=90.5, signal="USR1",
        signal_before_s=120, depends_on=("5", "6_1"), requeue=False, output="/x/%j-100%-%%", comment="mine",
    )  # fmt: skip
    assert make_options(submission) == [
        "--job-name=a name", "--comment=presage:key=k mine", "--output=/x/%j-100%%-%%", "--partition=gpu",
        "--account=lab", "--nodes=2", "--ntasks-per-node=4", "--cpus-per-task=3", "--gpus-per-node=a100:2",
        "--mem=11M", "--time=00:01:31", "--signal=B:USR1@120", "--dependency=afterany:5:6_1",
        "--kill-on-invalid-dep=yes", "--no-requeue",
    ]  # fmt: skip
    plain = Submission("k", "n", "#!/bin/sh\n")
    assert make_options(plain) == ["--job-name=n", "--comment=presage:key=k"]


@pytest.mark.parametrize(
    "fields",
    [{"partition": "a b"}, {"account": "x;y"}, {"depends_on": ("1:2",)}, {"output": "a\\b"}, {"gpu_type": "a b"}],
)
def test_what_slurm_would_understand_otherwise_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        make_options(Submission("k", "n", "#!/bin/sh\n", **fields))


def test_commands_that_are_missing_or_hang_are_named(tmp_path: Path) -> None:
    commands = SlurmCommands({"PATH": str(tmp_path)}, timeout_s=0.5)
    with pytest.raises(CommandMissingError, match="squeue"):
        CONNECTORS.get("slurm")({"PATH": str(tmp_path)}).statuses(["1"])  # type: ignore[call-arg]
    with pytest.raises(ClusterRefusedError, match="sh cannot be called so"):
        SlurmCommands().run("sh", "a\0b")
    with pytest.raises(ClusterRefusedError, match="too long"):
        SlurmCommands().run("sh", "x" * 1_000_000)
    for name, body, expected in (
        ("sinfo", "exec sleep 5", ClusterTimeoutError),
        (
            "squeue",
            "echo 'slurm_load_jobs error: Unable to contact slurm controller' >&2; exit 1",
            ClusterUnreachableError,
        ),
        ("sbatch", "echo 'sbatch: error: too big' >&2; exit 1", ClusterRefusedError),
    ):
        (tmp_path / name).write_text(f"#!/bin/sh\nPATH=/usr/bin:/bin\n{body}\n")
        (tmp_path / name).chmod(0o755)
        with pytest.raises(expected, match=name):
            commands.run(name)


POLICY = "Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (f"QOSMaxSubmitJobPerUserLimit\n{POLICY}", ClusterBusyError),
        (f"AssocMaxSubmitJobLimit\n{POLICY}", ClusterBusyError),
        (f"AssocGrpSubmitJobsLimit\n{POLICY}", ClusterBusyError),
        ("Slurm temporarily unable to accept job, sleeping and retrying", ClusterBusyError),
        ("Batch job submission failed: Resource temporarily unavailable", ClusterBusyError),
        (f"QOSMaxCpuPerJobLimit\n{POLICY}", ClusterRefusedError),
        ("Batch job submission failed: Invalid partition name specified", ClusterRefusedError),
        # The controller may have taken the job all the same.
        ("Batch job submission failed: Socket timed out on send/recv operation", ClusterUnreachableError),
    ],
)
def test_a_refusal_for_now_is_told_from_one_for_good(
    tmp_path: Path, words: str, expected: type[ConnectorError]
) -> None:
    (tmp_path / "words").write_text(words)
    (tmp_path / "sbatch").write_text(f"#!/bin/sh\n/bin/cat {tmp_path}/words >&2; exit 1\n")
    (tmp_path / "sbatch").chmod(0o755)
    with pytest.raises(ConnectorError) as raised:
        SlurmConnector({"PATH": str(tmp_path)}).submit(Submission("k", "n", "#!/bin/sh\n"))
    assert type(raised.value) is expected
