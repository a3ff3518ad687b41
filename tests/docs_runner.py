"""Runs a Markdown document: every fenced block in it is executed or checked.

- `console`: a line that starts with `$ ` is a command for bash; it goes on behind a backslash and through a
  here-document. The lines below it, if any, are its output. It must exit 0, or as `# exits 3` behind it says.
  A command that is `presage` alone, into a file at most, needs no bash and is run warm (see `warm_commands`).
- `python`: runs in one namespace per document; a `text` block right behind it is what it printed. Names behind
  the word are modules; where one is not installed, the block and its output are left out.
- `toml` and `json` must parse.
- Directives of MyST (`{toctree}` …) are left to Sphinx.

In expected output, `...` stands for anything in a line, and alone on a line for any number of lines. Blanks at
the ends of lines, and blank lines, do not count.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markdown_it import MarkdownIt

from tests.warm_commands import WarmCommands

ROOT = Path(__file__).parents[1]
DIRECTIVES = {"{generated}", "{include}", "{literalinclude}", "{toctree}"}
TIMEOUT_S = 300
_SETUP = re.compile(r"git clone |pip install |source \.venv/bin/activate$")
_MAKE = re.compile(r"make (\w+)$")
_EDITABLE = "pip install --editable ."
_EXITS = re.compile(r"# exits (\d+)$")
_FOR_A_SHELL = re.compile(r"[$`|&;<()*?~\n]|[^ ]>|>[^ ]| > .* > ")
_HERE_DOCUMENT = re.compile(r"<<'?(\w+)'?")


@dataclass(frozen=True)
class Block:
    """A fenced block and where it stands."""

    document: Path
    line: int
    language: str
    content: str
    needs: tuple[str, ...] = ()
    """Modules."""

    @property
    def place(self) -> str:
        return f"{self.document}:{self.line}"


@dataclass(frozen=True)
class Command:
    """One command of a console block with the output that is shown for it."""

    text: str
    output: str

    @property
    def exit_code(self) -> int:
        marked = _EXITS.search(self.text.partition("\n")[0])
        return int(marked[1]) if marked else 0

    @property
    def call(self) -> tuple[list[str], str | None] | None:
        """The arguments of `presage` and the file for its output; none if it takes a shell to run this."""
        text = self.text.replace("\\\n", " ")
        if not text.startswith("presage ") or _FOR_A_SHELL.search(text):
            return None
        plain, into, file = text.partition(" > ")
        return shlex.split(plain, comments=True)[1:], shlex.split(file, comments=True)[0] if into else None


def blocks_of(path: Path) -> list[Block]:
    """Return the code blocks of a Markdown file in order."""
    tokens = MarkdownIt().parse(path.read_text())
    document = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path
    return [
        Block(document, token.map[0] + 1 if token.map else 0, words[0], token.content, tuple(words[1:]))
        for token in tokens
        if token.type in {"fence", "code_block"} and (words := token.info.split() or [""])
    ]


def commands_of(block: Block) -> Iterator[Command]:
    """Yield the commands of a console block."""
    lines = block.content.splitlines()
    assert lines, f"{block.place}: the block is empty"
    assert lines[0].startswith("$ "), f"{block.place}: a console block starts with a command"
    while lines:
        text = lines.pop(0).removeprefix("$ ")
        while text.endswith("\\"):
            text += "\n" + lines.pop(0)
        if here := _HERE_DOCUMENT.search(text):
            end = lines.index(here[1]) + 1
            text = "\n".join([text, *lines[:end]])
            del lines[:end]
        shown = []
        while lines and not lines[0].startswith("$ "):
            shown.append(lines.pop(0))
        yield Command(text, "\n".join(shown))


def environment_in(folder: Path) -> dict[str, str]:
    """Return the environment of a person without any settings, whose home is `folder`."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PRESAGE_")}
    return kept | {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(folder),
        "XDG_CONFIG_HOME": str(folder / ".config"),
        "XDG_DATA_HOME": str(folder / ".local" / "share"),
        "PYTHONPATH": "",
        "LC_ALL": "C.UTF-8",
        "NO_COLOR": "1",
        "TERM": "dumb",
    }


class DocumentRun:
    """Runs the blocks of one document, in order, in one folder and one Python namespace."""

    def __init__(self, folder: Path, warm: WarmCommands | None = None) -> None:
        self.folder = folder
        self.warm = warm
        self.namespace: dict[str, Any] = {"__name__": "__main__"}
        self.printed: str | None = None
        self.leaves_out = False
        self.environment = environment_in(folder)

    def run(self, block: Block) -> None:
        """Execute or check one block. Raises AssertionError that names its place."""
        printed, self.printed = self.printed, None
        if self.leaves_out and block.language == "text":
            return
        self.leaves_out = block.language == "python" and not all(map(_is_installed, block.needs))
        if self.leaves_out:
            return
        if block.language == "console":
            for command in commands_of(block):
                self._run_command(command, block.place)
        elif block.language == "python":
            self.printed = self._run_python(block)
        elif block.language == "text":
            assert printed is not None, f"{block.place}: a text block is the output of the Python block before it"
            assert matches(block.content, printed), f"{block.place}: printed was\n{printed}"
        elif block.language == "toml":
            tomllib.loads(block.content)
        elif block.language == "json":
            json.loads(block.content)
        else:
            assert block.language in DIRECTIVES, f"{block.place}: no way to run or check {block.language!r}"

    def _run_command(self, command: Command, place: str) -> None:
        if target := _MAKE.match(command.text):
            self._check_target(target[1], place)
            return
        if command.text == _EDITABLE:
            self._install()
            return
        if _SETUP.match(command.text):
            return
        assert not command.text.startswith(("cd ", "export ")), f"{place}: commands do not share a shell"
        exit_code, printed = self._run_warm(command) or self._run_in_bash(command)
        what = f"{place}: $ {command.text}\n"
        assert exit_code == command.exit_code, f"{what}exited {exit_code} with\n{printed}"
        if command.output.strip():
            assert matches(command.output, printed), f"{what}printed\n{printed}"

    def _run_in_bash(self, command: Command) -> tuple[int, str]:
        done = subprocess.run(
            ["bash", "-o", "pipefail", "-c", command.text],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=TIMEOUT_S,
        )
        return done.returncode, done.stdout

    def _run_warm(self, command: Command) -> tuple[int, str] | None:
        """Run the command without a start of its own; none if it needs a shell or packages of the document."""
        if not self.warm or not command.call or self.environment["PYTHONPATH"]:
            return None
        arguments, into = command.call
        with tempfile.TemporaryDirectory() as folder:
            printed = Path(folder) / "printed"
            printed.touch()
            if into:
                (self.folder / into).write_text("")
            exit_code = self.warm.run(
                arguments,
                folder=self.folder,
                environment=self.environment,
                stdout=self.folder / into if into else printed,
                stderr=printed,
                timeout_s=TIMEOUT_S,
            )
            return exit_code, printed.read_text()

    def _run_python(self, block: Block) -> str:
        code = compile(block.content, block.place, "exec")
        with contextlib.redirect_stdout(io.StringIO()) as printed, contextlib.chdir(self.folder):
            exec(code, self.namespace)
        return printed.getvalue()

    def _check_target(self, target: str, place: str) -> None:
        dry = subprocess.run(["make", "-n", target], cwd=ROOT, capture_output=True, text=True)
        assert dry.returncode == 0, f"{place}: the Makefile has no usable target {target!r}: {dry.stderr}"

    def _install(self) -> None:
        """Do what an editable install of the folder would: make its modules and entry points known."""
        project = tomllib.loads((self.folder / "pyproject.toml").read_text())["project"]
        known = self.folder / ".site" / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
        known.mkdir(parents=True)
        (known / "METADATA").write_text(f"Name: {project['name']}\nVersion: {project['version']}\n")
        points = [
            line
            for group, members in project.get("entry-points", {}).items()
            for line in (f"[{group}]", *(f"{name} = {target}" for name, target in members.items()))
        ]
        (known / "entry_points.txt").write_text("\n".join(points) + "\n")
        self.environment["PYTHONPATH"] = f"{self.folder}{os.pathsep}{known.parent}"


def _is_installed(module: str) -> bool:
    try:
        importlib.import_module(module)
    except ImportError:
        return False
    return True


def run_document(path: Path, folder: Path, warm: WarmCommands | None = None) -> None:
    """Run all blocks of the document at `path` in `folder`."""
    run = DocumentRun(folder, warm)
    for block in blocks_of(path):
        run.run(block)


def matches(expected: str, actual: str) -> bool:
    """Return whether `actual` is what `expected` shows."""
    pattern = []
    for line in _tidy(expected):
        if line.strip() == "...":
            pattern.append(r"(?:.*\n)*?")
        else:
            pattern.append(".*".join(map(re.escape, line.split("..."))) + r"\n")
    return re.fullmatch("".join(pattern), "\n".join([*_tidy(actual), ""])) is not None


def _tidy(text: str) -> list[str]:
    return [line.rstrip() for line in text.split("\n") if line.strip()]
