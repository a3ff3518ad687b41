"""The settings of Presage: TOML files and the environment, checked once at the edge.

From weakest to strongest: the defaults below, the user's file (`~/.config/presage/config.toml`), the file
`presage.toml` of the working directory, the file named by `PRESAGE_CONFIG`, environment variables
(`PRESAGE_TRACES__TIME_ZONE=Europe/Berlin`), options on the command line.
"""

from __future__ import annotations

import os
import tomllib
import zoneinfo
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, field_validator
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
    TomlConfigSettingsSource,
)

from presage.errors import ConfigError

ENV_PREFIX = "PRESAGE_"


class TraceSettings(BaseModel):
    """How logs are read."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    time_zone: str | None = Field(
        default=None, description="Zone of local times without one; else the format's own, or UTC."
    )
    strict: bool = Field(default=False, description="Make any rejected row an error.")
    max_line_bytes: int = Field(
        default=16 * 1024 * 1024, ge=1024, description="Longer lines are rejected instead of being held in memory."
    )

    @field_validator("time_zone")
    @classmethod
    def _zone_exists(cls, value: str | None) -> str | None:
        try:
            if value is not None:
                zoneinfo.ZoneInfo(value)
        except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
            raise ValueError(f"{value!r} is not a time zone like 'Europe/Berlin' or 'UTC'") from None
        return value


class StateSettings(BaseModel):
    """Where Presage keeps what it must not forget."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    home: Path | None = Field(
        default=None, description="Folder of the state; PRESAGE_HOME wins over it; else ~/.local/share/presage."
    )
    database: SecretStr | None = Field(
        default=None, description="URL of the database; else a SQLite file, presage.sqlite, in that folder."
    )


class ServiceSettings(BaseModel):
    """Which service commands speak to, and what one that is started here offers."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    address: str | None = Field(
        default=None, description="Like http://127.0.0.1:8377; else commands work on this machine alone."
    )
    token: SecretStr | None = Field(default=None, description="What `presage up` or its administrator gave you.")
    policies: dict[str, Path] = Field(
        default={}, description="Learned orders that `presage up` offers: a file or store for each name."
    )


class TapisSettings(BaseModel):
    """Which Tapis to hand jobs to, and in whose name. PRESAGE_TAPIS_URL and its like win over it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    base_url: str | None = Field(default=None, description="The tenant's address, like https://tacc.tapis.io.")
    system: str | None = Field(default=None, description="The id of the execution system.")
    username: str | None = Field(default=None, description="Who asks; needs a password.")
    password: SecretStr | None = Field(default=None, description="With it, tokens are got and renewed.")
    token: SecretStr | None = Field(default=None, description="A token instead, good until it ends.")
    token_file: Path | None = Field(default=None, description="A file with a token that somebody renews.")
    app_id: str | None = Field(default=None, description="The application that jobs run in; else presage-job.")
    app_version: str | None = Field(default=None, description="Its version; else 1.")
    image: str | None = Field(default=None, description="Its container image; not needed if it is registered.")
    runtime: Literal["SINGULARITY", "DOCKER"] | None = Field(
        default=None, description="What runs containers there; else SINGULARITY."
    )
    container_arguments: tuple[str, ...] = Field(
        default=(), description='Arguments of that, like "--bind /scratch".'
    )
    profile: str | None = Field(default=None, description="A scheduler profile, where the site wants one.")
    registry: str | None = Field(
        default=None, description="Where the images of estimators are, like docker://registry.example.org/me."
    )


class Settings(BaseSettings):
    """All settings. Build it with `load_settings`, which turns mistakes into one clear error."""

    model_config = SettingsConfigDict(
        env_prefix=ENV_PREFIX, env_nested_delimiter="__", extra="forbid", frozen=True
    )

    traces: TraceSettings = Field(default_factory=TraceSettings)
    state: StateSettings = Field(default_factory=StateSettings)
    service: ServiceSettings = Field(default_factory=ServiceSettings)
    tapis: TapisSettings = Field(default_factory=TapisSettings)

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Put the TOML files below the environment; the last file named is the strongest."""
        files = TomlConfigSettingsSource(settings_cls, toml_file=config_files(), deep_merge=True)
        return init_settings, env_settings, files


def config_files() -> list[Path]:
    """Return the configuration files that exist, weakest first.

    Raises ConfigError if `PRESAGE_CONFIG` names one that does not.
    """
    config_home = Path(os.environ.get("XDG_CONFIG_HOME", Path.home() / ".config"))
    found = [path for path in (config_home / "presage" / "config.toml", Path("presage.toml")) if path.is_file()]
    named = os.environ.get(f"{ENV_PREFIX}CONFIG")
    if named:
        if not Path(named).is_file():
            raise ConfigError(
                f"PRESAGE_CONFIG names {named!r}, and there is no such file",
                remedy="Correct the variable or unset it",
            )
        found.append(Path(named))
    return found


def load_settings(**overrides: Any) -> Settings:
    """Return the effective settings. Raises ConfigError naming the setting that is wrong and what holds it."""
    files = {str(path): _read_toml(path) for path in config_files()}
    try:
        return Settings(**overrides)
    except ValidationError as error:
        first = error.errors()[0]
        setting = ".".join(str(part) for part in first["loc"])
        holder = _holder([str(part) for part in first["loc"]], files)
        problem = (
            f"The setting {setting!r} in {holder} cannot be used: {first['msg'].removeprefix('Value error, ')}"
        )
        if first["type"] == "extra_forbidden":
            problem = f"There is no setting {setting!r}, which {holder} has"
        raise ConfigError(
            problem,
            expected=f"settings named {', '.join(_names())}" if first["type"] == "extra_forbidden" else "",
            remedy="Correct it there or take it out",
        ) from None
    except SettingsError as error:
        raise ConfigError(
            f"An environment variable that begins with {ENV_PREFIX} cannot be read: {error}",
            expected="one variable for each setting, like PRESAGE_TRACES__STRICT=true",
            remedy="Correct or unset the variable",
        ) from None


def _names() -> list[str]:
    return [
        f"{section}.{name}"
        for section, field in Settings.model_fields.items()
        for name in getattr(field.annotation, "model_fields", {})
    ]


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        problem = f"The configuration file {str(path)!r} is not TOML: {error}"
        raise ConfigError(problem, remedy="Correct it or take it away") from None
    except OSError as error:
        problem = f"The configuration file {str(path)!r} cannot be read: {error.strerror}"
        raise ConfigError(problem, remedy="Give yourself the right to read it, or take it away") from None


def _holder(setting: list[str], files: dict[str, dict[str, Any]]) -> str:
    """Return what holds a setting: the strongest of the places that have it."""
    names = [f"{ENV_PREFIX}{'__'.join(setting[:depth])}".upper() for depth in range(len(setting), 0, -1)]
    variables = {name.upper(): name for name in os.environ}
    for name in names:
        if name in variables:
            return f"the environment variable {variables[name]}"
    for path, content in reversed(files.items()):
        inside: Any = content
        for part in setting:
            inside = inside.get(part) if isinstance(inside, dict) else None
        if inside is not None:
            return f"the file {path!r}"
    return "the call"
