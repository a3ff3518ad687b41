from __future__ import annotations

import contextlib
import math
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from presage.clusters.charges import Share
from presage.errors import InputError, PresageError, UnreadableSourceError, UsageError
from presage.estimators import ScriptWorkload
from presage.estimators._options import parse_options, split_directive
from presage.estimators.scripts import (
    Stamp,
    asked_by,
    commit_of,
    directives_in,
    find_stamp,
    read_script,
    stamp_of,
    with_stamp,
)

GIB = 1 << 30
SCRIPT = """#!/bin/bash
# Trains.
#SBATCH --job-name="my \\"best\\" run" --time 90   # an hour and a half
#SBATCH -N2 --ntasks-per-node=4 -c 3
#SBATCH --gres=gpu:a100:2 --mem=64G
#SBATCH --fancy-option=7 --mail-type END
   # an indented comment
#SBATCH --time=1-2

module load cuda
#SBATCH --time=5
"""


def write(folder: Path, text: str, name: str = "train.sbatch") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_a_script_asks_for_what_its_directives_say(tmp_path: Path) -> None:
    script = read_script(write(tmp_path, SCRIPT), ["a b", "--lr=0.1"])
    asked = script.asked
    assert asked.name == 'my "best" run'
    assert asked.walltime_s == 26 * 3600  # the last one before the first command
    assert (asked.nodes, asked.tasks_per_node, asked.cpus_per_task) == (2, 4, 3)
    assert (asked.gpus, asked.gpu_type) == (2, "a100")
    assert asked.share == Share(2, 12, 2, 64 * GIB)
    unknown = [each for each in script.directives if each.option in {"fancy-option", "mail-type"}]
    assert [(each.text, each.value) for each in unknown] == [("--fancy-option=7", "7"), ("--mail-type END", "END")]
    assert script.arguments == ("a b", "--lr=0.1")


# What Slurm 22.05's sbatch made of the same lines.
@pytest.mark.parametrize(
    ("line", "words"),
    [
        (r' -J "a \"b\" c"', ["-J", 'a "b" c']),
        (r" -J a\"b", ["-J", 'a"b']),
        (r" -J 'a\'b'", ["-J", "a'b"]),
        (' -J a"b c"d', ["-J", "ab cd"]),
        (" -J a#b", ["-J", "a"]),
        (' -J "a#b" --time=5', ["-J", "a#b", "--time=5"]),
        (r" -J a\\b", ["-J", r"a\b"]),
        (r" --comment=x\ y", ["--comment=x", "y"]),
        ("\t-J\ttab", ["-J", "tab"]),
        ("--time=7", ["--time=7"]),
        (' -J "open', None),
        ("   # nothing but a comment", []),
    ],
)
def test_directives_are_split_as_sbatch_splits_them(line: str, words: list[str] | None) -> None:
    assert split_directive(line) == words


@pytest.mark.parametrize(
    ("words", "option", "value"),
    [
        (["-t", "5"], "time", "5"),
        (["-t5"], "time", "5"),
        (["--time", "5"], "time", "5"),
        (["--time=5"], "time", "5"),
        (["--part=main"], "partition", "main"),  # cut short, as getopt allows
        (["-Hst5"], "time", "5"),  # flags and an option in one word
        (["--workdir=/x"], "chdir", "/x"),
    ],
)
def test_all_ways_to_write_an_option_are_one(words: list[str], option: str, value: str) -> None:
    last = parse_options(words)[-1]
    assert (last.option, last.value) == (option, value)


def test_a_flag_takes_no_value_from_the_next_word() -> None:
    assert [each.option for each in parse_options(["--exclusive", "--requeue", "-n", "3"])] == [
        "exclusive", "requeue", "ntasks",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 5400), ("90:30", 5460), ("1:30:00", 5400), ("1-0", 86400), ("1-2:30", 95400), ("2-0:0:1", 172860),
        ("0", math.inf), ("UNLIMITED", math.inf), ("infinite", math.inf),
    ],
)  # fmt: skip
def test_limits_are_what_slurm_makes_of_them(text: str, seconds: float) -> None:
    assert asked_by(parse_options([f"--time={text}"])).walltime_s == seconds


@pytest.mark.parametrize(
    ("options", "share"),
    [
        ([], Share(1, 1)),
        (["-n8"], Share(1, 8)),
        (["-n8", "--ntasks-per-node=4"], Share(2, 4)),
        (["-N2-4", "-n8", "-c2"], Share(2, 8)),
        (["-N2", "--gpus=4", "--mem-per-gpu=10G"], Share(2, 1, 2, 20 * GIB)),
        (["-n2", "-c4", "--gpus-per-task=1", "--mem-per-cpu=500M"], Share(1, 8, 2, 8 * 500 << 20)),
        (["--gpus-per-node=v100:4", "--mem=1000"], Share(1, 1, 4, 1000 << 20)),
        (["--gres=lscratch:5,gpu:2"], Share(1, 1, 2)),
        (["--mem=2G", "--mem-per-cpu=1G", "-c4"], Share(1, 4, 0, 4 * GIB)),
        (["--mem=0"], Share(1, 1, 0, None)),
    ],
)
def test_a_share_is_what_a_node_gives(options: list[str], share: Share) -> None:
    assert asked_by(parse_options(options)).share == share


def test_the_environment_wins_over_the_script_and_options_over_both(tmp_path: Path) -> None:
    path = write(tmp_path, "#!/bin/sh\n#SBATCH -t 10 -p slow -A one\n")
    environment = {"SBATCH_TIMELIMIT": "20", "SBATCH_PARTITION": "fast", "HOME": "/"}
    asked = read_script(path, environment=environment, options=["--time=30"]).asked
    assert (asked.walltime_s, asked.partition, asked.account) == (1800, "fast", "one")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("echo no interpreter", "interpreter"),
        ("#!/bin/sh\n#SBATCH --time=soon\n", "--time=soon in line 2"),
        ("#!/bin/sh\n#SBATCH --nodes=0\n", "--nodes=0"),
        ("#!/bin/sh\n#SBATCH --mem=lots\n", "--mem=lots"),
        ("#!/bin/sh\n#SBATCH -J 'x\n", "line 2: a quote"),
        ("#!/bin/sh\r\n#SBATCH -t5\r\n", "Windows"),
        ("#!/bin/sh\0", "NUL"),
    ],
)
def test_what_sbatch_would_not_take_is_refused_with_the_reason(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "job.sh"
    path.write_bytes(text.encode())
    with pytest.raises(InputError, match=problem):
        read_script(path)


def test_a_script_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UnreadableSourceError, match=r"none\.sh cannot be read"):
        read_script(tmp_path / "none.sh")
    with pytest.raises(UnreadableSourceError):
        read_script(tmp_path)
    with pytest.raises(UnreadableSourceError):
        read_script("a\0b")


@given(st.text(max_size=200))
def test_no_text_breaks_the_reading(text: str) -> None:
    with contextlib.suppress(PresageError):
        asked_by(directives_in(f"#!/bin/sh\n#SBATCH {text}\n#SBATCH --{text}\n"))


def test_who_asks_for_less_runs_the_same_script(tmp_path: Path) -> None:
    one = read_script(write(tmp_path, "#!/bin/sh\n#SBATCH -t 10\nrun\n#SBATCH -t 1\n"))
    less = read_script(write(tmp_path, "#!/bin/sh\n#SBATCH -t 5 --mem=1G\nrun\n#SBATCH -t 1\n"))
    other = read_script(write(tmp_path, "#!/bin/sh\n#SBATCH -t 10\nrun faster\n#SBATCH -t 1\n"))
    below = read_script(
        write(tmp_path, "#!/bin/sh\n#SBATCH -t 10\nrun\n#SBATCH -t 2\n")
    )  # which is a comment there
    assert one.digest == less.digest
    assert len({one.digest, other.digest, below.digest}) == 3


def test_a_stamp_finds_a_job_again_in_any_text() -> None:
    workload = ScriptWorkload("x", ("a b", "c"), digest="0123456789abcdef" * 4, commit="f" * 40)
    stamp = stamp_of(workload)
    assert str(stamp).startswith("presage:1 script=0123456789ab args=")
    assert str(stamp).endswith(" commit=ffffffffffff")
    assert find_stamp(f"sbatch --comment=presage:key=1 mine {stamp} /tmp/x a") == stamp
    assert find_stamp("presage:1 script=xyz") is None
    assert stamp_of(ScriptWorkload("x", ("a", "b c"), digest="0" * 64)).arguments != stamp.arguments
    with pytest.raises(UsageError, match="no digest"):
        stamp_of(ScriptWorkload("x"))


def test_a_stamp_stands_behind_the_users_own_comment() -> None:
    stamp = Stamp("a" * 12, "b" * 8)
    assert with_stamp("my note", stamp) == f"my note {stamp}"
    assert with_stamp(None, stamp) == str(stamp)
    assert (
        with_stamp(f"my note {stamp}", Stamp("c" * 12, "b" * 8))
        == f"my note presage:1 script={'c' * 12} args={'b' * 8}"
    )


def test_the_commit_is_the_one_that_git_says(tmp_path: Path) -> None:
    assert commit_of(tmp_path) == ""

    def git(*words: str) -> str:
        names = ["-c", "user.name=x", "-c", "user.email=x@example.org", "-c", "init.defaultBranch=main"]
        done = subprocess.run(["git", *names, *words], cwd=tmp_path, capture_output=True, text=True, timeout=30)
        return done.stdout.strip()

    git("init")
    assert commit_of(tmp_path) == ""  # nothing is committed yet
    git("commit", "--allow-empty", "-m", "x")
    (tmp_path / "below").mkdir()
    assert commit_of(tmp_path / "below") == git("rev-parse", "HEAD") != ""
    git("pack-refs", "--all")
    assert commit_of(tmp_path) == git("rev-parse", "HEAD")
    git("checkout", "--detach")
    assert commit_of(tmp_path) == git("rev-parse", "HEAD")
    git("worktree", "add", "-b", "side", "tree")
    assert commit_of(tmp_path / "tree") == git("rev-parse", "side")
    (tmp_path / ".git" / "HEAD").write_text("ref: ../../etc/passwd\n")
    assert commit_of(tmp_path) == ""
