"""What is discovered anew, without what a person has changed since the last discovery."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from presage.clusters.documents import document_of, recalled_system

if TYPE_CHECKING:
    from presage.clusters.systems import System


def merge(base: System, current: System, found: System) -> System:
    """Return `found` with everything in which `current` differs from `base`, the discovery before it.

    So charges, policies and staging that a person added stay, and so does a limit that a person corrected; what
    nobody touched follows the cluster. Partitions and node types that a person added stay; those that have gone
    from the cluster go. Raises InputError if the result contradicts itself.
    """
    merged = _merge_tables(document_of(base), document_of(current), document_of(found))
    merged["name"] = current.name
    needed = {name for partition in merged["partitions"].values() for name in partition["node_types"]}
    for node_type in current.node_types:
        if node_type.name in needed and node_type.name not in merged["node_types"]:
            merged["node_types"] |= document_of(replace(current, node_types=(node_type,)))["node_types"]
    return recalled_system(merged, f"The refreshed system {current.name!r}")


def _merge_tables(base: dict[str, Any], current: dict[str, Any], found: dict[str, Any]) -> dict[str, Any]:
    merged = {}
    for key in found | current:
        if key not in found and key in base:
            continue  # gone from the cluster
        if key in base and key not in current:
            continue  # taken out by a person
        if key in found and key in current:
            merged[key] = _merge_values(base.get(key), current[key], found[key])
        else:
            merged[key] = found[key] if key in found else current[key]
    return merged


def _merge_values(base: Any, current: Any, found: Any) -> Any:
    if isinstance(current, dict) and isinstance(found, dict):
        return _merge_tables(base if isinstance(base, dict) else {}, current, found)
    return found if current == base else current
