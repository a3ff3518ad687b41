"""What is not said about a Tapis: from the environment, else from the settings `[tapis]`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from pydantic import SecretStr

from presage.config import load_settings
from presage.connectors.tapis.applications import Application, Runtime
from presage.errors import ClusterUnreachableError, ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

VARIABLES = {
    "base_url": "PRESAGE_TAPIS_URL",
    "system": "PRESAGE_TAPIS_SYSTEM",
    "token": "PRESAGE_TAPIS_TOKEN",
    "username": "PRESAGE_TAPIS_USERNAME",
    "password": "PRESAGE_TAPIS_PASSWORD",
    "image": "PRESAGE_TAPIS_IMAGE",
    "profile": "PRESAGE_TAPIS_PROFILE",
}
"""Variables of ours are not passed on to jobs."""


class TapisDefaults:
    """The environment and the settings as they are now. Raises ConfigError for settings that cannot be read."""

    def __init__(self) -> None:
        self._settings = load_settings().tapis

    def find(self, name: str) -> str | None:
        """Return a setting; None if it is not made."""
        told = os.environ.get(VARIABLES.get(name, "")) or getattr(self._settings, name)
        text = told.get_secret_value() if isinstance(told, SecretStr) else told
        return None if text is None else str(text) or None

    def need(self, name: str) -> str:
        """Return a setting. Raises ConfigError if it is not made."""
        value = self.find(name)
        if value is None:
            raise ConfigError(
                f"Tapis needs the setting {name!r}, which is not given",
                remedy=f"Give it, set the variable {VARIABLES[name]}, or write it below [tapis] into presage.toml",
            )
        return value

    def token(self) -> str | Callable[[], str]:
        """Return the token, or what reads it from its file. Raises ConfigError if there is neither."""
        path = self._settings.token_file
        if path is None or self.find("token") is not None:
            return self.need("token")
        return lambda: _read_token(path)

    def application(self) -> Application:
        """Return the application that jobs run in."""
        settings, usual = self._settings, Application()
        return Application(
            app_id=settings.app_id or usual.app_id,
            version=settings.app_version or usual.version,
            image=self.find("image"),
            runtime=self.runtime,
            container_arguments=settings.container_arguments,
        )

    @property
    def runtime(self) -> Runtime:
        """What runs containers there."""
        return Runtime(self._settings.runtime or Runtime.SINGULARITY)

    @property
    def registry(self) -> str | None:
        """Where the images of estimators are."""
        return self._settings.registry


def _read_token(path: Path) -> str:
    try:
        return path.expanduser().read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as error:
        raise ClusterUnreachableError(
            f"The token for Tapis cannot be read from {str(path)!r}: {getattr(error, 'strerror', None) or error}",
            remedy="Write one there; it is read again by itself",
        ) from None
