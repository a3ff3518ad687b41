from __future__ import annotations

import stat
from pathlib import Path

import pytest

from presage.errors import OutputError, UsageError
from presage.helper.places import running_service
from presage.service.announcement import Announcement, announced, announcing

SERVICE = Announcement("http://127.0.0.1:1", "presage_secret")


def file_in(home: Path) -> Path:
    (found,) = home.glob("service-*.json")
    return found


def test_commands_of_its_user_find_a_service_while_it_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    monkeypatch.setenv("PRESAGE_HOME", str(home))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert running_service() is None
    with announcing(home) as announcer:
        assert announced(home) is None  # it has not said anything yet
        announcer.tell(SERVICE)
        assert announced(home) == SERVICE
        assert stat.S_IMODE(file_in(home).stat().st_mode) == 0o600
        assert stat.S_IMODE(home.stat().st_mode) == 0o700
        found = running_service()
        assert found is not None
        found.close()
    assert announced(home) is None
    assert not list(home.iterdir())


def test_what_a_killed_service_left_is_not_believed(tmp_path: Path) -> None:
    with announcing(tmp_path) as announcer:
        announcer.tell(SERVICE)
        path = file_in(tmp_path)
        left = path.read_bytes()
    path.write_bytes(left)
    path.chmod(0o600)
    assert announced(tmp_path) is None
    with announcing(tmp_path) as announcer:  # and stands in nobody's way
        announcer.tell(SERVICE)
        assert announced(tmp_path) == SERVICE


def test_a_file_that_others_can_read_is_not_believed(tmp_path: Path) -> None:
    with announcing(tmp_path) as announcer:
        announcer.tell(SERVICE)
        file_in(tmp_path).chmod(0o640)
        assert announced(tmp_path) is None


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.touch()
    with announcing(tmp_path):
        name = file_in(tmp_path).name
    (tmp_path / name).symlink_to(elsewhere)
    with pytest.raises(OutputError, match="cannot be written"), announcing(tmp_path):
        pass
    assert announced(tmp_path) is None


def test_two_services_cannot_have_the_same_state(tmp_path: Path) -> None:
    with announcing(tmp_path) as announcer:
        announcer.tell(SERVICE)
        with pytest.raises(UsageError, match="runs already at http"), announcing(tmp_path):
            pass
        assert announced(tmp_path) == SERVICE
