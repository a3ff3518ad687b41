from __future__ import annotations

import json
import logging
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from presage.estimators import Estimator, Quantity, Spread, UnsupportedError
from presage.estimators.plugins import BrokenPluginError, Kind, Manifest, ProgramEstimator, write_request
from presage.estimators.plugins.contract import MAX_DOCUMENT_BYTES
from presage.testing.estimators import EstimatorContract, make_target, make_training_request
from tests.estimators.plugins.conftest import MakeProgram, reference_program

REQUEST = make_training_request(Quantity.WALLTIME)
ANSWER = {
    "quantity": "walltime",
    "p10": 1.0,
    "p50": 2.0,
    "p90": 4.0,
    "basis": "stated",
    "notes": ["So it is said."],
}
SAYS = f"print({json.dumps(json.dumps(ANSWER))})"


class TestRooflineContract(EstimatorContract):
    @pytest.fixture
    def estimator(self) -> Estimator:
        return reference_program("roofline-walltime")


class TestPeakMemoryContract(EstimatorContract):
    @pytest.fixture
    def estimator(self) -> Estimator:
        return reference_program("peak-memory")


def test_the_roofline_is_as_computed_by_hand() -> None:
    answer = reference_program("roofline-walltime").estimate(REQUEST)
    # A100: matmul 2e12 / 19.5e12 = 0.10256 s; elementwise 30e9 / 1.555e12 = 0.01929 s; 1,000 steps at 40 %.
    assert answer.spread.p50 == pytest.approx(1000 * (2e12 / 19.5e12 + 30e9 / 1.555e12) / 0.4)
    assert answer.details["steps"] == 1000
    on_cpu = make_training_request(Quantity.WALLTIME, target=make_target(gpu=None))
    answer = reference_program("roofline-walltime").estimate(on_cpu)
    assert answer.spread.p50 == pytest.approx(1000 * (2e12 / 400e9 + 30e9 / 200e9) / 0.4)


def test_the_peak_is_as_computed_by_hand() -> None:
    answer = reference_program("peak-memory").estimate(make_training_request(Quantity.MEMORY))
    gib, context = 1 << 30, 500 * (1 << 20)
    assert answer.spread == Spread(3 * gib + context, 3.5 * gib + context, (3.5 * gib + context) * 1.1)


def test_a_program_gets_the_request_and_its_words_are_the_answer(
    make_program: MakeProgram, tmp_path: Path
) -> None:
    made = make_program(f"import sys; open('asked', 'wb').write(sys.stdin.buffer.read()); {SAYS}")
    answer = made.estimate(REQUEST)
    assert (tmp_path / "asked").read_bytes() == write_request(REQUEST)
    assert (answer.spread, answer.notes, answer.estimator) == (Spread(1, 2, 4), ("So it is said.",), "tried")


def test_a_refusal_is_no_failure(make_program: MakeProgram, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(UnsupportedError, match="no GPUs here") as refusal:
        make_program("import sys; sys.stderr.write('thinking\\nno GPUs here\\n'); sys.exit(3)").estimate(REQUEST)
    assert refusal.type is UnsupportedError
    with pytest.raises(UnsupportedError, match="in JSON"):
        make_program("""print('{"unsupported": "in JSON"}'); raise SystemExit(3)""").estimate(REQUEST)
    assert not caplog.records


@pytest.mark.parametrize(
    ("code", "limits", "problem"),
    [
        ("1 / 0", {}, "exited with 1: ZeroDivisionError"),
        ("import sys; sys.stderr.write('what?'); sys.exit(2)", {}, "did not understand the request: what?"),
        ("import os; os.kill(os.getpid(), 9)", {}, "ended by SIGKILL"),
        ("import time; time.sleep(60)", {"timeout_s": 0.5}, "took longer than 0.5 s"),
        ("import os, time\nos.close(1)\nos.close(2)\ntime.sleep(60)", {"timeout_s": 0.5}, "took longer than"),
        ("while True: print('x' * 100000)", {}, f"more than {MAX_DOCUMENT_BYTES:,} bytes"),
        ("b = bytearray(10**9)", {"memory_bytes": 200 << 20}, "MemoryError"),
        ("print('hello')", {}, "not as api 1 has it"),
        ("pass", {}, "not as api 1 has it"),
        (SAYS.replace("1.0", "9.0"), {}, "rising order"),
        (SAYS.replace("walltime", "memory"), {}, "about memory"),
    ],
)
def test_a_broken_program_is_logged_by_name_and_is_no_more_than_one_without_an_answer(
    code: str, limits: dict[str, float], problem: str, make_program: MakeProgram, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(BrokenPluginError, match=problem):
        make_program(code, **limits).estimate(REQUEST)
    assert caplog.record_tuples[0][1] == logging.WARNING
    assert "The estimator tried 1 is broken" in caplog.text


def test_a_program_that_is_not_there_is_broken(tmp_path: Path) -> None:
    for entrypoint in (("no-such-program",), ("no\0program",), (str(tmp_path),)):
        manifest = Manifest("gone", "1", Quantity.WALLTIME, Kind.PROGRAM, entrypoint=entrypoint)
        with pytest.raises(BrokenPluginError):
            ProgramEstimator(manifest, tmp_path).estimate(REQUEST)


def test_an_own_file_of_the_folder_is_run(tmp_path: Path) -> None:
    (tmp_path / "say").write_text(f"#!/bin/sh\necho '{json.dumps(ANSWER)}'\n")
    (tmp_path / "say").chmod(0o755)
    manifest = Manifest("sayer", "1", Quantity.WALLTIME, Kind.PROGRAM, entrypoint=("say",))
    assert ProgramEstimator(manifest, tmp_path).estimate(REQUEST).spread.p90 == 4


def test_a_program_inherits_next_to_nothing(make_program: MakeProgram, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_TOKEN", "x")
    told = {**ANSWER, "details": {}}
    code = f"import json, os; print(json.dumps({{**{told!r}, 'details': dict(os.environ)}}))"
    inherited = make_program(code).estimate(REQUEST).details
    assert inherited["PRESAGE_ESTIMATOR_API"] == "1"
    assert set(inherited) <= {
        "PRESAGE_ESTIMATOR_API",
        "PATH",
        "LANG",
        "LC_ALL",
        "LC_CTYPE",
        "TZ",
        "PWD",
        "OLDPWD",
        "_",
        "SHLVL",
    }


def test_children_end_with_the_program(make_program: MakeProgram, tmp_path: Path) -> None:
    code = f"""
import subprocess
child = subprocess.Popen(["sleep", "60"])
open("child", "w").write(str(child.pid))
{SAYS}
"""
    began = time.monotonic()
    assert make_program(code).estimate(REQUEST).spread.p50 == 2
    assert time.monotonic() - began < 20
    child = int((tmp_path / "child").read_text())
    for _ in range(100):
        if not _is_running(child):
            break
        time.sleep(0.05)
    assert not _is_running(child)


def test_several_threads_may_ask_at_once(make_program: MakeProgram) -> None:
    made = make_program(SAYS)
    with ThreadPoolExecutor(4) as threads:
        answers = list(threads.map(made.estimate, [REQUEST] * 8))
    assert {answer.spread for answer in answers} == {Spread(1, 2, 4)}


def _is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_no_file_is_left_open(make_program: MakeProgram) -> None:
    made = make_program(SAYS)
    made.estimate(REQUEST)
    before = len(list(Path("/proc/self/fd").iterdir()))
    made.estimate(REQUEST)
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_a_limit_that_is_lower_already_stays() -> None:
    code = """
import resource
from presage.estimators.plugins._process import run_limited
resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
for asked in (1 << 30, 4 << 30):
    tell = ["/bin/sh", "-c", "ulimit -v; exit 7"]
    done = run_limited(tell, b"", timeout_s=9, environment={}, memory_bytes=asked)
    print(done.exit_code, done.stdout.decode().strip(), done.stderr.decode())
"""
    unprivileged = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"] if shutil.which("setpriv") else []
    done = subprocess.run([*unprivileged, sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.split() == ["7", str(1 << 20), "7", str(2 << 20)], done.stderr
