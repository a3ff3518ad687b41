"""What `presage policy train` is made of: two learners, which options are whose, and what people are told."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from presage.cli._output import progress, steps
from presage.errors import UnknownNameError, UsageError

if TYPE_CHECKING:
    import typer

    from presage.learning.cases import Case
    from presage.learning.event_files import EventFile
    from presage.learning.learned_policy import LearnedPolicy
    from presage.learning.ppo_policy import Learned
    from presage.learning.search import Search
    from presage.policies.queue_scorer import Guard, QueueScorer

_OPTIONS = {
    "search": ("generations", "population", "fairness", "journal", "starts", "engine", "workers"),
    "ppo": ("decisions", "checkpoints"),
}
"""The options that only one learner has."""


@dataclass(frozen=True)
class Trained:
    """What a learner came to, whichever it was."""

    scorer: QueueScorer
    guard: Guard
    about: dict[str, Any]
    """Its card."""
    story: dict[str, Any]
    """How it came about, for machines."""
    notes: list[str]
    """What people should be told of it."""


def check_learner(context: typer.Context, learner: str) -> None:
    """Raise what is wrong with the learner, or with an option that belongs to another one."""
    if learner not in _OPTIONS:
        raise UnknownNameError("learner", learner, _OPTIONS)
    for other, names in _OPTIONS.items():
        for name in names if other != learner else ():
            source = context.get_parameter_source(name)
            if source is not None and source.name == "COMMANDLINE":
                raise UsageError(
                    f"--{name.replace('_', '-')} says nothing to the learner {learner}",
                    remedy=f"Leave it out, or learn with --learner {other}",
                )


def kind_for(learner: str, kind: str | None, begin: LearnedPolicy) -> str:
    """Return the kind of scorer to learn. Raises UsageError if there is none of that name."""
    from presage.learning.search import KINDS, kind_of

    if kind is not None and kind not in KINDS:
        raise UsageError(f"There is no scorer of kind {kind!r}", expected=f"one of {', '.join(KINDS)}")
    return kind or ("attention" if learner == "ppo" else kind_of(begin.scorer))


def log_in(folder: str | None) -> EventFile | None:
    """Return a new log of a training in a folder."""
    from presage.learning.event_files import EventFile

    return None if folder is None else EventFile(Path(folder))


def by_search(
    cases: list[Case],
    search: Search,
    begin: LearnedPolicy,
    *,
    starts: int,
    engine: str,
    workers: int | None,
    journal: str | None,
    log: EventFile | None,
) -> Trained:
    """Search by evolution, once or from several starts."""
    from presage.learning.search import search_from_many, search_scorer

    if starts > 1:
        with progress("searching", starts) as advance:
            found = search_from_many(
                cases, search, starts, start=begin.scorer, engine=engine, workers=workers,
                progress=lambda _done, _of: advance(1),
            )  # fmt: skip
    else:
        with progress("searching", search.generations) as advance:
            found = search_scorer(
                cases, search, start=begin.scorer, journal=None if journal is None else Path(journal),
                workers=workers or 1, progress=lambda _done, _of, _cost: advance(1), log=log,
            )  # fmt: skip
    about = {
        "method": f"CMA-ES, {search.kind}", "logs": [cases[0].name], "jobs": len(cases[0]), "seed": search.seed,
        "begins_as": begin.name, "generations": len(found.history), "cost": found.cost,
    }  # fmt: skip
    story = {"interrupted": found.interrupted, "history": found.history}
    notes = [f"The search began at {begin.name}"]
    if found.interrupted and starts > 1:
        notes.append(f"Interrupted before all of {starts} starts were done: the best so far is kept")
    elif found.interrupted:
        notes.append(f"Interrupted after {len(found.history)} of {search.generations} generations")
    return Trained(found.scorer, search.guard, about, story, notes)


def check_ppo(kind: str, begin: LearnedPolicy) -> None:
    """Raise what is missing to learn by reinforcement, or why a policy of a kind cannot begin as another one."""
    from presage.learning.ppo_policy import check_beginning

    check_beginning(kind, begin.scorer)


def by_ppo(
    cases: list[Case],
    kind: str,
    begin: LearnedPolicy,
    *,
    decisions: int,
    seed: int,
    checkpoints: str | None,
    log: EventFile | None,
) -> Trained:
    """Learn by reinforcement."""
    from dataclasses import replace

    from presage.learning.ppo_policy import WHOLE_RUNS, ScorerSettings, train_scorer

    settings = ScorerSettings(kind, begin=begin.scorer)
    settings = replace(settings, ppo=replace(settings.ppo, decisions=decisions, seed=seed))
    with steps("decision") as show:
        learned = train_scorer(
            cases, settings, folder=None if checkpoints is None else Path(checkpoints), log=log,
            progress=None if show is None
            else lambda done, of, line: show(done, of, f"cost {line[WHOLE_RUNS]:+.3f}"),
        )  # fmt: skip
    about = {
        "method": f"PPO, {kind}", "logs": [cases[0].name], "jobs": len(cases[0]), "seed": seed,
        "begins_as": begin.name, "decisions": learned.decisions, "kept_after": learned.kept_after,
        "cost": learned.cost,
    }  # fmt: skip
    story = {"interrupted": learned.interrupted, "curve": learned.curve}
    notes = _notes_of_ppo(learned, begin.name, decisions, can_go_on=checkpoints is not None)
    return Trained(learned.scorer, settings.guard, about, story, notes)


def _notes_of_ppo(learned: Learned, begin: str, decisions: int, *, can_go_on: bool) -> list[str]:
    notes = []
    if learned.interrupted:
        then = ": the same call goes on from there" if can_go_on else ""
        notes.append(f"Interrupted after {learned.decisions:,} of {decisions:,} decisions{then}")
    if not learned.kept_after:
        notes.append(f"No round did better in whole runs than {begin}, which it began as: that is what is kept")
    else:
        notes.append(f"The best in whole runs was what {learned.kept_after:,} decisions had come to")
    return notes
