"""Compressed lists of node names, as Slurm and its relatives write them."""

from __future__ import annotations

import re

MAX_NODES = 65_536
"""The most nodes one list may name; Slurm itself takes no more."""
_RANGE = re.compile(r"^(\d{1,18})(?:-(\d{1,18}))?$")
_NODE_ITEM = re.compile(r"[^\[\]\s]*(?:\[[^\[\]]*\][^\[\]\s]*)*")
_MAX_NAME_CHARS = 255


def expand_nodes(text: str, most: int = MAX_NODES) -> list[str] | None:
    """Return the nodes of `cpn-f15-[06,08,11-12],gpu1`; None if it is no node list or names more than `most`."""
    nodes: list[str] = []
    for item in _outside_brackets(text):
        expanded = _expand_item(item.strip(), most - len(nodes))
        if expanded is None:
            return None
        nodes += expanded
    return nodes


def _outside_brackets(text: str) -> list[str]:
    """Return the parts of `text` between the commas that are not in brackets."""
    if "[" not in text:
        return text.split(",")
    items, start, depth = [], 0, 0
    for mark in re.finditer(r"[\[\],]", text):
        if mark[0] == "," and not depth:
            items.append(text[start : mark.start()])
            start = mark.end()
        depth += {"[": 1, "]": -1, ",": 0}[mark[0]]
    return [*items, text[start:]]


def _expand_item(item: str, most: int) -> list[str] | None:
    if not item or most < 1 or not _NODE_ITEM.fullmatch(item):
        return None
    pieces = re.split(r"[\[\]]", item)  # a name's parts and, at the odd places, what stands in brackets
    if sum(map(len, pieces[::2])) > _MAX_NAME_CHARS:
        return None
    names = [pieces[0]]
    for ranges, literal in zip(pieces[1::2], pieces[2::2], strict=True):
        numbers = _numbers(ranges, most // len(names))
        if numbers is None:
            return None
        names = [name + number + literal for name in names for number in numbers]
    return names


def _numbers(ranges: str, most: int) -> list[str] | None:
    numbers: list[str] = []
    for part in ranges.split(","):
        match = _RANGE.match(part.strip())
        if not match:
            return None
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first or len(numbers) + last - first + 1 > most:
            return None
        numbers += [str(number).zfill(len(match[1])) for number in range(first, last + 1)]
    return numbers
