"""The reference of the API as one page without scripts, which works offline."""

from __future__ import annotations

import base64
import hashlib
from html import escape
from typing import Any

_STYLE = (
    "body{font:16px/1.5 system-ui;max-width:60rem;margin:2rem auto;padding:0 1rem}"
    "code{background:#eee;padding:.1rem .3rem}section{margin:1.5rem 0}"
    "@media(prefers-color-scheme:dark){body{background:#111;color:#ddd}code{background:#333}}"
)
_DIGEST = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
CONTENT_POLICY = f"default-src 'none'; style-src 'sha256-{_DIGEST}'; frame-ancestors 'none'; base-uri 'none'"
"""Lets the page have its own style and nothing else."""
_REFERENCE = "#/components/schemas/"


def reference_page(openapi: dict[str, Any]) -> str:
    """Return HTML that lists every endpoint with what it does and takes."""
    schemas = openapi.get("components", {}).get("schemas", {})
    parts = [
        f"<section><h2><code>{escape(method.upper())} {escape(path)}</code></h2>{_words(call)}"
        f"{_list(call.get('parameters', []))}{_list(_members(call, schemas))}</section>"
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
    paragraphs = (call.get("description") or call.get("summary") or "").split("\n\n")
    return "".join(f"<p>{escape(each)}</p>" for each in paragraphs)


def _members(call: dict[str, Any], schemas: dict[str, Any]) -> list[dict[str, Any]]:
    """Return what the body of a call has: names, descriptions, and whether they must be there."""
    content = call.get("requestBody", {}).get("content", {}).get("application/json", {})
    schema = schemas.get(content.get("schema", {}).get("$ref", "").removeprefix(_REFERENCE), {})
    required = schema.get("required", [])
    return [
        {"name": name, "description": each.get("description"), "required": name in required}
        for name, each in schema.get("properties", {}).items()
    ]


def _list(members: list[dict[str, Any]]) -> str:
    rows = [
        f"<li><code>{escape(each['name'])}</code>{' (needed)' if each.get('required') else ''} "
        f"{escape(each.get('description') or '')}</li>"
        for each in members
    ]
    return f"<ul>{''.join(rows)}</ul>" if rows else ""
