"""`presage demo`: a small network that is trained past its limit, by the commands that anybody would type."""

from __future__ import annotations

import json as json_text
import math
import shlex
import subprocess
import sys
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from presage.cli._demo_telling import follow, print_decisions, print_outcome
from presage.cli._managed import NotCompletedError
from presage.cli._output import Json, emit_json, tell
from presage.cli.up import this_program
from presage.errors import OutputError, PresageError, UsageError
from presage.units import format_bytes, spell_seconds

if TYPE_CHECKING:
    from presage.cli._demo_chain import Chain
    from presage.client.rest import ServiceClient

PROGRAM, SYSTEM = "digits.py", "here"
TRIAL_S = 4
USUAL_EPOCHS = 60
WANTED_S = (12.0, 24.0, 40.0)
"""The least, the best and the most that the training should take: enough to see something, and no more."""
LEAST_LIMIT_S = 8
SAVE_S, RESTART_S, WARNING_S = 1, 1, 3


class DemoError(PresageError):
    """A step did not work."""

    code = "demo"


def demo(
    folder: Annotated[
        Path, typer.Argument(metavar="[FOLDER]", help="Where the program and the plan go.", show_default=True)
    ] = Path("presage-demo"),
    json: Json = False,
) -> None:
    """Train a small network past a limit of time: estimate, plan, submit, go on from checkpoints, finish.

    It needs `presage up` in another terminal, about a minute, and no GPU: the network is plain numpy. All of it
    really happens, on this machine, and each step shows the command that does it, for you to type with a program
    of your own. At the end stand the jobs that it took, every decision with its reason, and what was predicted
    beside what happened. The exit code is 0 only if the training came to its end in two jobs or more and nothing
    that was saved was lost.

    The job is the plane's: after Ctrl-C it goes on.

    Example: presage demo

    Example: presage demo /tmp/demo --json
    """
    from presage.helper.places import running_service

    service = running_service()
    if service is None:
        raise UsageError("No service runs here", remedy="Start one with `presage up`, in another terminal")
    service.jobs(active_only=True)  # which fails now rather than after the estimate, if nobody answers
    scene = Demo(folder.absolute(), service, shows=not json)
    document = scene.run()
    if json:
        emit_json(document)
    scene.check()


@dataclass
class Demo:
    """One run of it, step by step."""

    folder: Path
    service: ServiceClient
    shows: bool
    name: str = ""
    epochs: int = USUAL_EPOCHS
    limit_s: int = 0
    commands: list[str] = field(default_factory=list)
    chain: Chain | None = None

    def run(self) -> dict[str, Any]:
        """Do all of it and return what happened."""
        self._prepare()
        estimate = self._estimate()
        plan = self._plan(estimate)
        job, decisions = self._submit()
        chain = self.chain = self._chain(job)
        if self.shows:
            print_decisions(decisions)
            print_outcome(chain, estimate, plan)
        return {
            "folder": str(self.folder), "commands": self.commands, "epochs": self.epochs, "limit_s": self.limit_s,
            "estimate": estimate, "plan": plan, "job": job, "decisions": decisions, **chain.as_dict(),
        }  # fmt: skip

    def check(self) -> None:
        """Raise NotCompletedError unless it ended well, in several jobs, with nothing lost."""
        chain = self.chain
        if chain is None or chain.phase != "completed":
            problem = f"The training is {chain.phase}: {chain.reason}" if chain else "It did not run"
            raise NotCompletedError(problem)
        if chain.lost > 0:
            raise NotCompletedError(f"{chain.lost:.2g} epochs that had been saved were lost")
        if len(chain.links) < 2:
            raise NotCompletedError(
                "The training was done in one job, faster than it was estimated", remedy="Run the demo again"
            )

    def _prepare(self) -> None:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            text = files("presage.examples").joinpath(PROGRAM).read_text(encoding="utf-8")
            (self.folder / PROGRAM).write_text(text, encoding="utf-8")
        except OSError as error:
            raise OutputError(
                f"Nothing can be written to {str(self.folder)!r}: {error.strerror or error}",
                remedy="Name another folder",
            ) from None
        # Each time another run: an earlier one may still be going on.
        taken = {path.name for path in (self.folder / ".presage").glob("digits-*")}
        number = next(each for each in range(1, len(taken) + 2) if f"digits-{each}" not in taken)
        self.name = f"digits-{number}"
        self._say(f"A small network learns to read digits, in plain numpy: {self.folder / PROGRAM}")
        self._show(f"cd {shlex.quote(str(self.folder))}")

    def _estimate(self) -> dict[str, Any]:
        self._step(f"1. What will it need? It is tried here for {TRIAL_S} seconds.")
        found = self._tried()
        least_s, best_s, most_s = WANTED_S
        if not least_s <= found["walltime"]["p50"] <= most_s:
            self.epochs = max(2, round(self.epochs * best_s / found["walltime"]["p50"]))
            self._say(f"   So that it takes about {best_s:g} s here, it shall learn {self.epochs} epochs.")
            found = self._tried()
        return found

    def _tried(self) -> dict[str, Any]:
        found = self._call("estimate", "--run", self._command(), "--seconds", str(TRIAL_S))
        time, memory = (_words(found[what], spell) for what, spell in _SPELLED)
        self._say(f"   {self.epochs} epochs take {time} and {memory}: measured, as busy as this machine is now.")
        return found

    def _plan(self, estimate: dict[str, Any]) -> dict[str, Any]:
        self.limit_s = max(LEAST_LIMIT_S, math.ceil(estimate["walltime"]["p50"] / 2))
        self._step(
            f"2. Where should it run? Here, where a job may take no more than {self.limit_s} s from now on."
        )
        system = self.folder / f"{SYSTEM}.toml"
        discovered = self._run("systems", "discover", "local", "--name", SYSTEM, "--dry-run", into=system)
        self._show(f"echo 'max_walltime_s = {self.limit_s}' >> {system.name}")
        system.write_text(f"{discovered}max_walltime_s = {self.limit_s}\n", encoding="utf-8")
        time, memory = estimate["walltime"], estimate["memory"]
        made = self._call(
            "plan", "--name", self.name, "--run", self._command(), "--system", system.name, "--cores", "1",
            "--memory", "..".join(f"{memory[each] / (1 << 20):.1f}MiB" for each in _QUANTILES),
            "--walltime", "..".join(f"{time[each]:.1f}s" for each in _QUANTILES), "--wait", f"{SYSTEM}=0",
            "--save", f"{SAVE_S}s", "--restart", f"{RESTART_S}s", "--warning", f"{WARNING_S}s",
            "--strategy", "best-configuration", "--write", f"{self.name}.json",
        )["chosen"]  # fmt: skip
        if made is None:
            raise DemoError("There is no way to run it here", remedy="The command above says why, without --json")
        jobs, after = len(made["legs"]), _words(made["completion"], spell_seconds)
        self._say(f"   {jobs} jobs, each from the checkpoint of the one before; all is done after {after}.")
        return {"jobs": jobs, **{each: made[each] for each in ("run", "completion", "legs")}}

    def _submit(self) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        self._step("3. Hand it over, and forget it.")
        job_id = str(self._call("submit", "--managed", f"{self.name}.json")["job_id"])
        self._show(f"{_program()} watch {job_id}")
        try:
            job = follow(self.service, job_id, shows=self.shows)
        except KeyboardInterrupt:
            program = _program()
            tell(f"\nThe job goes on. Follow it: {program} watch {job_id}. Stop it: {program} cancel {job_id}.")
            raise
        self._step("4. Why was it done like that?")
        self._show(f"{_program()} explain {job_id}")
        return job, self.service.decisions(job_id)

    def _chain(self, job: dict[str, Any]) -> Chain:
        from presage.cli._demo_chain import read_chain

        return read_chain(job, Path(job["order"]["run_folder"]))

    def _command(self) -> str:
        return f"{shlex.quote(sys.executable)} {PROGRAM} --epochs {self.epochs}"

    def _call(self, *words: str) -> dict[str, Any]:
        """Show a command, run it, and return its document."""
        document: dict[str, Any] = json_text.loads(self._run(*words, wants_json=True))
        return document

    def _run(self, *words: str, wants_json: bool = False, into: Path | None = None) -> str:
        self._show(f"{_program()} {shlex.join(words)}" + (f" > {into.name}" if into else ""))
        # Right behind the command: what stands behind a script is the script's.
        command = [sys.executable, "-P", "-m", "presage", words[0], *["--json"] * wants_json, *words[1:]]
        done = subprocess.run(  # noqa: S603  (our own commands)
            command, cwd=self.folder, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False
        )
        if done.returncode != 0:
            problem = done.stderr.strip().rpartition("\n")[2].removeprefix("presage: ")
            raise DemoError(f"`presage {words[0]}` failed: {problem}")
        return done.stdout

    def _step(self, words: str) -> None:
        self._say(f"\n{words}")

    def _show(self, command: str) -> None:
        self.commands.append(command)
        self._say(f"   $ {command}")

    def _say(self, words: str) -> None:
        if self.shows:
            typer.echo(words)
            sys.stdout.flush()


_QUANTILES = ("p10", "p50", "p90")
_SPELLED = (("walltime", spell_seconds), ("memory", format_bytes))


def _program() -> str:
    return this_program(from_anywhere=True)


def _words(spread: dict[str, float], spell: Any) -> str:
    from presage.estimators.spread import Spread

    return Spread(*(spread[each] for each in _QUANTILES)).words(spell)
