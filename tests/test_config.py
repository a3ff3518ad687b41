from __future__ import annotations

from pathlib import Path

import pytest

from presage.config import load_settings
from presage.errors import ConfigError


@pytest.fixture(autouse=True)
def _bare_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("PRESAGE_CONFIG", raising=False)


def test_defaults_need_no_file() -> None:
    assert load_settings().traces.time_zone is None


def test_later_places_win(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    user = tmp_path / "home" / "presage" / "config.toml"
    user.parent.mkdir(parents=True)
    user.write_text('[traces]\ntime_zone = "Europe/Berlin"\nstrict = true\n')
    assert load_settings().traces.time_zone == "Europe/Berlin"
    Path("presage.toml").write_text('[traces]\ntime_zone = "Asia/Tokyo"\n')
    settings = load_settings().traces
    assert (settings.time_zone, settings.strict) == ("Asia/Tokyo", True)
    monkeypatch.setenv("PRESAGE_TRACES__TIME_ZONE", "US/Mountain")
    assert load_settings().traces.time_zone == "US/Mountain"
    assert load_settings(traces={"time_zone": "UTC"}).traces.time_zone == "UTC"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('[traces]\ntime_zone = "Mars/Olympus"\n', "traces.time_zone"),
        ("[traces]\ntime_zon = 1\n", "traces.time_zon"),
        ("[traces\n", "not TOML"),
        ("[traces]\nmax_line_bytes = 3\n", "traces.max_line_bytes"),
    ],
)
def test_mistakes_are_named(content: str, message: str) -> None:
    Path("presage.toml").write_text(content)
    with pytest.raises(ConfigError, match=message):
        load_settings()


def test_the_place_of_a_mistake_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("presage.toml").write_text('[traces]\ntime_zone = "Mars"\n')
    with pytest.raises(ConfigError, match=r"in the file 'presage\.toml'.*'Mars' is not a time zone"):
        load_settings()
    named = tmp_path / "named.toml"
    named.write_text('[traces]\ntime_zone = "Venus"\n')
    monkeypatch.setenv("PRESAGE_CONFIG", str(named))
    with pytest.raises(ConfigError, match=r"in the file '.*named\.toml'.*'Venus'"):
        load_settings()
    monkeypatch.setenv("PRESAGE_TRACES__TIME_ZONE", "Pluto")
    with pytest.raises(ConfigError, match=r"in the environment variable PRESAGE_TRACES__TIME_ZONE.*'Pluto'"):
        load_settings()


def test_a_setting_that_does_not_exist_is_answered_with_those_that_do() -> None:
    Path("presage.toml").write_text("[traces]\nzone = 1\n")
    with pytest.raises(ConfigError, match=r"no setting 'traces\.zone'.*presage\.toml.*traces\.time_zone"):
        load_settings()


@pytest.mark.parametrize("content", [b"[traces\n", b"name = '\xff'\n"])
def test_a_file_that_is_not_toml_is_named(content: bytes) -> None:
    Path("presage.toml").write_bytes(content)
    with pytest.raises(ConfigError, match=r"'presage\.toml' is not TOML"):
        load_settings()


def test_a_variable_that_is_no_section_is_a_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRESAGE_TRACES", "strict")
    with pytest.raises(ConfigError, match="environment variable"):
        load_settings()


def test_a_named_file_must_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRESAGE_CONFIG", "nowhere.toml")
    with pytest.raises(ConfigError, match=r"nowhere\.toml"):
        load_settings()
