"""`presage config`: what the settings are and where they can be set."""

from __future__ import annotations

import typer

from presage.cli._output import Json, emit_json, print_table, tell

app = typer.Typer(help="Show the settings.", no_args_is_help=True, rich_markup_mode="markdown")


@app.command()
def show(json: Json = False) -> None:
    """Show every setting with its present value and meaning.

    Settings come from ~/.config/presage/config.toml, ./presage.toml, the file named by PRESAGE_CONFIG and
    environment variables such as PRESAGE_TRACES__TIME_ZONE, the later ones winning.
    """
    from presage.config import config_files, load_settings

    settings = load_settings()
    if json:
        emit_json({"settings": settings.model_dump(mode="json"), "files": [str(path) for path in config_files()]})
        return
    rows = [
        (f"{section}.{name}", _shown(getattr(getattr(settings, section), name)), field.description or "")
        for section, section_field in type(settings).model_fields.items()
        for name, field in getattr(section_field.annotation, "model_fields", {}).items()
    ]
    print_table("", ("setting", "value", "meaning"), rows)
    files = ", ".join(str(path) for path in config_files()) or "none"
    tell(f"Configuration files read: {files}")


def _shown(value: object) -> str:
    return "not set" if value is None else str(value)
