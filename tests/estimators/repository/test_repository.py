from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from presage.database import Database
from presage.errors import InputError, PresageError, UnknownNameError, UsageError
from presage.estimators import ESTIMATORS, Basis, Estimate, Quantity, Spread
from presage.estimators.plugins import Kind
from presage.estimators.repository import Repository, Role, State, Stated
from presage.registry import Spec
from presage.testing.estimators import make_script_request, make_training_request
from tests.estimators.plugins.archives import layer_of, small_archive
from tests.estimators.plugins.conftest import Server
from tests.estimators.repository.conftest import MakePlugin
from tests.estimators.repository.fakes import FakeWalltime, Rude, Unborn

REQUEST = make_training_request(Quantity.WALLTIME)
LABELS = {
    "presage.estimator.api": "1", "presage.estimator.name": "boxed", "presage.estimator.version": "0.3",
    "presage.estimator.quantity": "memory", "presage.estimator.metrics.median_error": "0.12", "maker": "ada",
}  # fmt: skip


def roles(repository: Repository, quantity: Quantity = Quantity.WALLTIME) -> list[tuple[str, str, Role]]:
    return [(each.name, each.version, role) for each, role in repository.estimators_for(quantity)]


def test_what_is_added_begins_in_the_shadow(repository: Repository, make_plugin: MakePlugin) -> None:
    entry = repository.add(str(make_plugin(version="1.2")))
    assert (entry.name, entry.version, entry.state, entry.pinned) == ("constant", "1.2", State.SHADOW, False)
    assert entry.digest.startswith("sha256:")
    assert roles(repository)[-1] == ("constant", "1.2", Role.SHADOW)
    assert roles(repository, Quantity.WAIT)[-1][0] != "constant"
    loaded = repository.load(entry)
    assert loaded.estimate(REQUEST).spread == Spread(1, 2, 1000)


def test_the_kept_copy_is_used_and_must_be_what_was_added(
    repository: Repository, make_plugin: MakePlugin, caplog: pytest.LogCaptureFixture
) -> None:
    folder = make_plugin()
    entry = repository.add(str(folder), in_charge=True)
    (folder / "say").write_text("#!/bin/sh\nexit 1\n")
    assert repository.load(entry).estimate(REQUEST).spread.p50 == 2
    (repository.versions.folder("constant", "1") / "say").write_text("#!/bin/sh\nexit 1\n")
    with pytest.raises(InputError, match="not those that were added"):
        repository.load(entry)
    assert "constant" not in {name for name, _, _ in roles(repository)}
    assert "constant 1 is left out" in caplog.text


def test_the_same_version_is_the_same_content(repository: Repository, make_plugin: MakePlugin) -> None:
    folder = make_plugin()
    first = repository.add(str(folder))
    assert repository.add(str(folder)) == first
    with pytest.raises(UsageError, match="is there already, with other content"):
        repository.add(str(make_plugin(p50=3.0)))
    assert len(repository.versions.all()) == 1


def test_versions_take_charge_and_are_rolled_back_in_turn(repository: Repository, make_plugin: MakePlugin) -> None:
    for version in ("1", "2", "3"):
        repository.add(str(make_plugin(version=version)))
    for version in ("1", "2", "3"):
        repository.versions.put_in_charge("constant", version, "a test")
    assert roles(repository)[0] == ("constant", "3", Role.IN_CHARGE)
    assert [entry.state for entry in repository.versions.all()] == [State.RETIRED, State.RETIRED, State.IN_CHARGE]
    assert repository.versions.roll_back("constant") == "2"
    assert repository.versions.get("constant").version == "2"
    assert repository.versions.roll_back("constant") == "1"
    assert repository.versions.roll_back("constant") is None
    assert "constant" not in {name for name, _, _ in roles(repository)}
    with pytest.raises(UsageError, match="No version of constant is in charge"):
        repository.versions.roll_back("constant")
    told = [(change.version, change.before) for change in repository.versions.changes("constant")]
    assert told == [("1", None), ("2", "1"), ("3", "2"), ("2", "1"), ("1", None), (None, None)]


def test_a_pinned_version_stays(repository: Repository, make_plugin: MakePlugin) -> None:
    for version in ("1", "2"):
        repository.add(str(make_plugin(version=version)))
    assert repository.versions.put_in_charge("constant", "1", "pinned", pin=True).pinned
    with pytest.raises(UsageError, match="constant is pinned to 1"):
        repository.take_over("constant", "2")
    repository.versions.unpin("constant")
    assert not repository.take_over("constant", "2").takes_over


def test_what_is_in_charge_is_not_removed(repository: Repository, make_plugin: MakePlugin) -> None:
    repository.add(str(make_plugin()), in_charge=True)
    with pytest.raises(UsageError, match="is in charge"):
        repository.versions.remove("constant", "1")
    repository.versions.roll_back("constant")
    kept = repository.versions.folder("constant", "1")
    assert kept.is_dir()
    repository.versions.remove("constant", "1")
    assert not kept.parent.exists()
    with pytest.raises(UnknownNameError):
        repository.versions.get("constant")


def test_names_that_are_not_there_suggest_others(repository: Repository, make_plugin: MakePlugin) -> None:
    repository.add(str(make_plugin()))
    with pytest.raises(UnknownNameError, match="Did you mean 'constant'"):
        repository.versions.get("constatn")
    with pytest.raises(UnknownNameError, match="no version of constant named '7'"):
        repository.versions.get("constant", "7")


def test_one_in_charge_stands_in_for_its_namesake_of_the_registry(
    repository: Repository, make_plugin: MakePlugin
) -> None:
    name = next(each for each, kind in ESTIMATORS.load_all().items() if kind.quantity is Quantity.WALLTIME)
    repository.add(str(make_plugin(name=name, version="99")))
    assert [version for each, version, _ in roles(repository) if each == name][-1] == "99"
    assert len([each for each, _, _ in roles(repository) if each == name]) == 2
    repository.versions.put_in_charge(name, "99", "a test")
    assert [(version, role) for each, version, role in roles(repository) if each == name] == [
        ("99", Role.IN_CHARGE)
    ]


def test_an_archive_says_what_it_is_by_its_labels(repository: Repository, tmp_path: Path) -> None:
    program = b'import sys; print(\'{"unsupported": "never"}\'); sys.exit(3)'
    layer = layer_of(("estimator/estimator.py", program))
    archive = small_archive(tmp_path / "boxed.tar", layer, Labels=LABELS)
    entry = repository.add(str(archive), runner="subprocess")
    assert (entry.name, entry.version, entry.manifest.kind) == ("boxed", "0.3", Kind.CONTAINER)
    assert (entry.manifest.metrics, entry.manifest.labels) == ({"median_error": 0.12}, {"maker": "ada"})
    assert entry.runner == "subprocess"
    with pytest.raises(PresageError, match="never"):
        repository.load(entry).estimate(make_training_request(Quantity.MEMORY))
    archive.unlink()
    assert repository.versions.files_are_there(entry)
    with pytest.raises(UnknownNameError, match="runner of containers"):
        repository.add(str(tmp_path), runner="docker")


def test_an_address_describes_itself_or_is_described(repository: Repository, server: Server) -> None:
    with pytest.raises(InputError, match="does not describe itself"):
        repository.add(server.url)
    entry = repository.add(server.url, Stated("far", "1", Quantity.WAIT))
    assert (entry.manifest.kind, entry.manifest.url) == (Kind.HTTP, server.url)
    said = {"api": 1, "name": "far", "version": "2", "quantity": "wait"}
    server.described = (200, json.dumps(said).encode())
    assert repository.add(server.url).version == "2"
    server.answer = lambda _: (200, b'{"quantity": "wait", "p10": 1, "p50": 2, "p90": 3, "basis": "history"}')
    answer = repository.load(entry).estimate(make_script_request(Quantity.WAIT))
    assert (answer.basis, answer.version) == (Basis.HISTORY, "1")


@pytest.mark.parametrize("source", ["", "nowhere", "/nowhere/at/all", "image:", "image:--help", "python:nothing"])
def test_a_source_that_is_none_says_what_one_is(source: str, repository: Repository, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(PresageError):
        repository.add(source if source else str(tmp_path / "empty"))
    assert repository.versions.all() == []
    assert not list(repository.home.glob(".pulling-*"))


def test_a_folder_that_is_no_estimator_alone_is_not_copied(
    repository: Repository, make_plugin: MakePlugin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("presage.estimators.repository.pulling._MAX_FOLDER_BYTES", 1000)
    folder = make_plugin()
    (folder / "data").write_bytes(b"x" * 2000)
    with pytest.raises(InputError, match="more than an estimator"):
        repository.add(str(folder))


def test_an_installed_class_can_be_put_into_the_shadow(
    repository: Repository, installed: type[FakeWalltime], monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    assert ("fake-walltime", "1", Role.IN_CHARGE) in roles(repository)
    entry = repository.add("python:fake-walltime")
    assert [role for name, _, role in roles(repository) if name == "fake-walltime"] == [Role.SHADOW]
    assert entry.manifest.target.endswith("fakes:FakeWalltime")
    monkeypatch.setattr(installed, "version", "2")
    assert "fake-walltime" not in {name for name, _, _ in roles(repository)}
    assert "is installed in version 2, not 1" in caplog.text
    with pytest.raises(UsageError, match="part of Presage"):
        repository.add("python:training-walltime")


def give(repository: Repository, count: int, *, p50_factor: float, first: int = 0) -> None:
    """Store answers that were given and what then happened: every job took as long as it asked for."""
    for number in range(first, first + count):
        request = make_script_request(Quantity.WALLTIME, script=f"job-{number}.sh")
        limit_s = 60.0 * (number + 1)
        request = replace(request, workload=replace(request.workload, walltime_s=limit_s))
        answer = Estimate(
            Quantity.WALLTIME, Spread.around(limit_s * p50_factor, 1.5), Basis.HISTORY, "history-walltime", "1"
        )
        repository.predictions.store(request, answer, job_key=f"job {number}")
        repository.predictions.record_outcome(f"job {number}", Quantity.WALLTIME, limit_s)


def test_a_better_version_takes_over_after_enough_outcomes(
    repository: Repository, installed: type[FakeWalltime]
) -> None:
    repository.add("python:fake-walltime")
    nothing = repository.compare("fake-walltime")
    assert (nothing.outcomes, nothing.takes_over, nothing.candidate) == (0, False, None)
    assert "no outcome is known" in nothing.reason
    give(repository, 19, p50_factor=2.0)
    few = repository.take_over("fake-walltime")
    assert (few.outcomes, few.takes_over) == (19, False)
    assert "only 19 outcomes of 20 known" in few.reason
    give(repository, 1, p50_factor=2.0, first=19)
    enough = repository.take_over("fake-walltime")
    assert (enough.outcomes, enough.takes_over) == (20, True)
    assert enough.candidate is not None
    assert enough.in_charge is not None
    assert enough.candidate.median_ratio_error == pytest.approx(0)
    assert enough.in_charge.median_ratio_error == pytest.approx(1)
    assert (enough.candidate.coverage, enough.in_charge.coverage) == (1.0, 0.0)
    assert enough.reason.startswith("no worse on 20 outcomes: pinball loss")
    assert roles(repository)[0] == ("fake-walltime", "1", Role.IN_CHARGE)
    assert repository.versions.changes("fake-walltime")[-1].reason == enough.reason
    # Each old question was asked once; what was answered is stored, and marked.
    assert installed.asked == 20
    assert len(repository.predictions.find(role=Role.REPLAYED)) == 20


def test_a_worse_version_stays_in_the_shadow(
    repository: Repository, installed: type[FakeWalltime], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(installed, "factor", 5.0)
    repository.add("python:fake-walltime")
    give(repository, 5, p50_factor=1.1)
    worse = repository.take_over("fake-walltime", needed=5)
    assert not worse.takes_over
    assert worse.reason.startswith("worse on 5 outcomes")
    assert repository.versions.get("fake-walltime").state is State.SHADOW


def test_answers_in_the_shadow_are_stored_and_not_asked_for_again(
    repository: Repository, installed: type[FakeWalltime]
) -> None:
    repository.add("python:fake-walltime")
    request = make_script_request(Quantity.WALLTIME)
    shadows = [each for each, role in repository.estimators_for(Quantity.WALLTIME) if role is Role.SHADOW]
    given = Estimate(Quantity.WALLTIME, Spread.exactly(100), Basis.STATED, "history-walltime", "1")
    repository.follow(request, given, [*shadows, Rude()], job_key="job")
    repository.predictions.record_outcome("job", Quantity.WALLTIME, 7200.0)
    assert {(each.estimator, each.role) for each in repository.predictions.find()} == {
        ("history-walltime", Role.IN_CHARGE), ("fake-walltime", Role.SHADOW),
    }  # fmt: skip
    compared = repository.compare("fake-walltime", needed=1)
    assert (compared.outcomes, compared.takes_over, compared.declined) == (1, True, 0)
    assert installed.asked == 1


def test_questions_that_it_cannot_answer_are_counted(
    repository: Repository, installed: type[FakeWalltime]
) -> None:
    repository.add("python:fake-walltime")
    repository.predictions.store(
        REQUEST, Estimate(Quantity.WALLTIME, Spread.exactly(1), Basis.STATED, "x", "1"), job_key="job"
    )
    repository.predictions.record_outcome("job", Quantity.WALLTIME, 1.0)
    compared = repository.compare("fake-walltime")
    assert (compared.outcomes, compared.declined) == (0, 1)
    assert json.loads(json.dumps(compared.as_dict()))["candidate"] is None


def test_a_database_that_cannot_be_read_leaves_the_registry(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "taken").write_text("no database at all")
    repository = Repository(Database(f"sqlite:///{tmp_path / 'taken'}"), tmp_path / "estimators")
    assert {role for _, _, role in roles(repository)} == {Role.IN_CHARGE}
    assert "Estimators that were added are left out" in caplog.text
    repository.follow(REQUEST, Estimate(Quantity.WALLTIME, Spread.exactly(1), Basis.STATED, "x", "1"))


def test_what_others_register_and_is_broken_is_left_out(
    repository: Repository, installed: type[FakeWalltime], caplog: pytest.LogCaptureFixture
) -> None:
    ESTIMATORS.register(Spec("odd", "json:dumps"))
    ESTIMATORS.register(Spec("unborn", f"{Unborn.__module__}:Unborn"))
    names = [name for name, _, _ in roles(repository)]
    assert "fake-walltime" in names
    assert not {"odd", "unborn"} & set(names)
    assert "registered as odd is no estimator" in caplog.text
    assert "unborn is left out: OSError: never" in caplog.text


def test_a_class_that_does_not_load_is_left_out(
    repository: Repository, installed: type[FakeWalltime], caplog: pytest.LogCaptureFixture
) -> None:
    ESTIMATORS.register(Spec("odd", "json:dumps"))
    with pytest.raises(InputError, match="no estimator"):
        repository.add("python:odd")
    entry = repository.add("python:fake-walltime")
    gone = replace(entry, manifest=replace(entry.manifest, target="no.such.module:Thing"))
    with pytest.raises(InputError, match="cannot be loaded"):
        repository.load(gone)
