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
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from presage.errors import ConfigError

ENV_PREFIX = "PRESAGE_"


class TraceSettings(BaseModel):
    """How logs are read."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    time_zone: str = Field(default="UTC", description="Zone of logs that state local times without a zone.")
    strict: bool = Field(default=False, description="Make any rejected row an error.")
    max_line_bytes: int = Field(
        default=16 * 1024 * 1024, ge=1024, description="Longer lines are rejected instead of being held in memory."
    )

    @field_validator("time_zone")
    @classmethod
    def _zone_exists(cls, value: str) -> str:
        try:
            zoneinfo.ZoneInfo(value)
        except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
            raise ValueError(f"{value!r} is not a time zone like 'Europe/Berlin' or 'UTC'") from None
        return value


class Settings(BaseSettings):
    """All settings. Build it with `load_settings`, which turns mistakes into one clear error."""

    model_config = SettingsConfigDict(
        env_prefix=ENV_PREFIX, env_nested_delimiter="__", extra="forbid", frozen=True
    )

    traces: TraceSettings = Field(default_factory=TraceSettings)

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
    """Return the effective settings. Raises ConfigError naming the setting that is wrong."""
    try:
        return Settings(**overrides)
    except ValidationError as error:
        first = error.errors()[0]
        setting = ".".join(str(part) for part in first["loc"])
        raise ConfigError(
            f"The setting {setting!r} cannot be used: {first['msg']}",
            remedy="`presage config show` lists every setting with its meaning",
        ) from None
    except tomllib.TOMLDecodeError as error:
        files = ", ".join(str(path) for path in config_files())
        raise ConfigError(f"A configuration file is not TOML: {error}", remedy=f"Correct one of {files}") from None
