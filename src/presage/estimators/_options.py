"""The options of sbatch: how they are written, and which of them take a value."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

SHORT = {
    "a": "array", "A": "account", "b": "begin", "B": "extra-node-info", "c": "cpus-per-task", "C": "constraint",
    "d": "dependency", "D": "chdir", "e": "error", "F": "nodefile", "G": "gpus", "i": "input", "J": "job-name",
    "L": "licenses", "m": "distribution", "M": "clusters", "n": "ntasks", "N": "nodes", "o": "output",
    "p": "partition", "q": "qos", "S": "core-spec", "t": "time", "w": "nodelist", "x": "exclude",
}  # fmt: skip
"""Short options that take a value."""
SHORT_FLAGS = {
    "h": "help", "H": "hold", "I": "immediate", "k": "no-kill", "O": "overcommit", "Q": "quiet",
    "s": "oversubscribe", "u": "usage", "v": "verbose", "V": "version", "W": "wait",
}  # fmt: skip
FLAGS = frozenset(
    {
        *SHORT_FLAGS.values(), "contiguous", "exclusive", "get-user-env", "ignore-pbs", "nice", "no-requeue",
        "parsable", "propagate", "reboot", "requeue", "spread-job", "test-only", "use-min-nodes", "share",
    }
)  # fmt: skip
"""Long options whose value, if they have one at all, stands behind '='."""
VALUES = frozenset(
    {
        *SHORT.values(), "acctg-freq", "batch", "bb", "bbf", "cluster", "cluster-constraint", "comment",
        "container", "cores-per-socket", "cpu-freq", "cpus-per-gpu", "deadline", "delay-boot", "export",
        "export-file", "gid",
        "gpu-bind", "gpu-freq", "gpus-per-node", "gpus-per-socket", "gpus-per-task", "gres", "gres-flags", "hint",
        "kill-on-invalid-dep", "mail-type", "mail-user", "mcs-label", "mem", "mem-bind", "mem-per-cpu",
        "mem-per-gpu", "mincpus", "network", "ntasks-per-core", "ntasks-per-gpu", "ntasks-per-node",
        "ntasks-per-socket", "open-mode", "power", "prefer", "priority", "profile", "reservation", "signal",
        "sockets-per-node", "switches", "thread-spec", "threads-per-core", "time-min", "tmp", "uid",
        "wait-all-nodes", "wckey", "workdir", "wrap",
    }
)  # fmt: skip
"""Long options that take a value."""
ALIASES = {"workdir": "chdir", "cluster": "clusters", "share": "oversubscribe"}
"""Names that older versions have."""
ENVIRONMENT = {
    "SBATCH_ACCOUNT": "account", "SBATCH_ARRAY_INX": "array", "SBATCH_EXCLUSIVE": "exclusive",
    "SBATCH_GPUS": "gpus", "SBATCH_GPUS_PER_NODE": "gpus-per-node", "SBATCH_GPUS_PER_TASK": "gpus-per-task",
    "SBATCH_GRES": "gres", "SBATCH_JOB_NAME": "job-name", "SBATCH_MEM_PER_NODE": "mem",
    "SBATCH_MEM_PER_CPU": "mem-per-cpu", "SBATCH_MEM_PER_GPU": "mem-per-gpu", "SBATCH_PARTITION": "partition",
    "SBATCH_QOS": "qos", "SBATCH_TIMELIMIT": "time",
}  # fmt: skip
"""Variables that sbatch takes for options."""

_QUOTED = r"\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'"
_PIECE = re.compile(
    rf"(?P<blank>\s+)|(?P<comment>#.*)|(?P<quoted>{_QUOTED})|\\(?P<escaped>\S?)|(?P<plain>[^\s\"'\\#]+)", re.DOTALL
)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)


@dataclass(frozen=True)
class Directive:
    """One option by its long name, however it was written."""

    option: str
    value: str | None = None
    """None: it has none."""
    line: int | None = None
    """Where it stands in the script; None: it comes from elsewhere."""
    text: str = ""
    """As it was written."""


def split_directive(text: str) -> list[str] | None:
    """Return the words of a directive without its comment; None if a quote is left open.

    Quotes of both kinds hold words together, a backslash takes the next character as it is, also within quotes,
    and '#' begins a comment anywhere but there. Outside of quotes a blank ends a word even behind a backslash.
    """
    words: list[str] = []
    pieces: list[str] = []  # of the word that is being read
    place = 0
    while place < len(text):
        found = _PIECE.match(text, place)
        if found is None:
            return None
        place = found.end()
        if found["blank"] or found["comment"]:
            words += ["".join(pieces)] if pieces else []
            pieces = []
        else:
            quoted = _ESCAPED.sub(r"\1", (found["quoted"] or "")[1:-1])
            pieces.append(quoted or found["plain"] or found["escaped"] or "")
    return [*words, "".join(pieces)] if pieces else words


def parse_options(words: Sequence[str], *, line: int | None = None) -> list[Directive]:
    """Return the options in some words, as sbatch's own parser takes them; a word that is none is kept as one."""
    found: list[Directive] = []
    rest = iter(words)
    for word in rest:
        if word.startswith("--") and len(word) > 2:
            found.append(_long(word, rest, line))
        elif word.startswith("-") and len(word) > 1:
            found += _short(word, rest, line)
        else:
            found.append(Directive(word, None, line, word))
    return found


def _long(word: str, rest: Iterator[str], line: int | None) -> Directive:
    written, equals, value = word[2:].partition("=")
    whole = _whole(written)
    option = ALIASES.get(whole, whole)
    if equals:
        return Directive(option, value, line, word)
    if whole not in VALUES:
        return Directive(option, None, line, word)
    value = next(rest, "")
    return Directive(option, value, line, f"{word} {value}")


def _short(word: str, rest: Iterator[str], line: int | None) -> list[Directive]:
    found = []
    for place, letter in enumerate(word[1:], start=2):
        if letter in SHORT:
            value = word[place:] or next(rest, "")
            found.append(Directive(SHORT[letter], value, line, f"-{letter} {value}"))
            break
        found.append(Directive(SHORT_FLAGS.get(letter, letter), None, line, f"-{letter}"))
    return found


def _whole(written: str) -> str:
    """Return the option of a name that may be cut short, as long as only one begins so; else the name itself."""
    known = VALUES | FLAGS
    begun = [name for name in known if name.startswith(written)]
    return begun[0] if written not in known and len(begun) == 1 else written
