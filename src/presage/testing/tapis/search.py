"""Searches of jobs as Tapis understands them, as far as anybody here asks for them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

_CONDITION = re.compile(r"\s*\(?\s*(\w+)\s*(?:=\s*'([^']*)'|IN\s*\(([^)]*)\))\s*\)?\s*", re.IGNORECASE)
_VALUE = re.compile(r"\s*'([^']*)'\s*(?:,|$)")
_ORDER = re.compile(r"(\w+)(?:\((asc|desc)\))?")
_LIMIT = 100
SUMMARY = (
    "uuid", "name", "owner", "appId", "created", "status", "condition", "remoteStarted", "ended", "tenant",
    "execSystemId", "appVersion", "lastUpdated",
)  # fmt: skip


def matching(jobs: Sequence[Mapping[str, Any]], conditions: Sequence[str]) -> list[Mapping[str, Any]]:
    """Return the jobs for which all conditions hold. Raises ValueError for those that are not understood."""
    found = list(jobs)
    for condition in re.split(r"\s+AND\s+", " ".join(conditions)):
        match = _CONDITION.fullmatch(condition)
        if match is None:
            raise ValueError(f"this is no condition: {condition[:80]}")
        wanted = {match[2]} if match[2] is not None else set(_VALUE.findall(match[3]))
        found = [job for job in found if wanted & _values(job.get(match[1]))]
    return found


def listed(
    jobs: Sequence[Mapping[str, Any]], query: Mapping[str, str], usual: Sequence[str]
) -> list[dict[str, Any]]:
    """Return the jobs in the order, number and detail that a query asks for."""
    found = list(jobs)
    match = _ORDER.fullmatch(query.get("orderBy", ""))
    if match is not None:
        name = match[1]
        found.sort(key=lambda job: str(job.get(name)), reverse=match[2] == "desc")
    limit, skip = int(query.get("limit", _LIMIT)), int(query.get("skip", 0))
    chosen = found[skip : skip + limit] if limit >= 0 else found[skip:]
    names = [name for name in query.get("select", "").split(",") if name] or list(usual)
    if "allAttributes" in names:
        return [dict(job) for job in chosen]
    return [{name: job.get(name) for name in dict.fromkeys([*names, "uuid"])} for job in chosen]


def _values(value: object) -> set[str]:
    return {str(item) for item in value} if isinstance(value, list) else {str(value)}
