"""The reference of the API as one page without scripts, which works offline."""

from __future__ import annotations

from html import escape
from typing import Any

_STYLE = (
    "body{font:16px/1.5 system-ui;max-width:60rem;margin:2rem auto;padding:0 1rem}"
    "code{background:#eee;padding:.1rem .3rem}section{margin:1.5rem 0}"
    "@media(prefers-color-scheme:dark){body{background:#111;color:#ddd}code{background:#333}}"
)


def reference_page(openapi: dict[str, Any]) -> str:
    """Return HTML that lists every endpoint with what it does and takes."""
    parts = [
        f"<section><h2><code>{escape(method.upper())} {escape(path)}</code></h2>{_words(call)}{_parameters(call)}"
        "</section>"
        for path, calls in openapi["paths"].items()
        for method, call in calls.items()
    ]
    title = f"{escape(openapi['info']['title'])} {escape(openapi['info']['version'])}"
    return (
        f"<!doctype html><html lang=en><meta charset=utf-8><title>{title}</title><style>{_STYLE}</style>"
        f"<h1>{title}</h1><p>The same for machines: <a href=openapi.json>openapi.json</a>.</p>"
        f"{''.join(parts)}</html>"
    )


def _words(call: dict[str, Any]) -> str:
    return f"<p>{escape(call.get('description') or call.get('summary') or '')}</p>"


def _parameters(call: dict[str, Any]) -> str:
    rows = [
        f"<li><code>{escape(each['name'])}</code> {escape(each.get('description') or '')}</li>"
        for each in call.get("parameters", [])
    ]
    return f"<ul>{''.join(rows)}</ul>" if rows else ""
