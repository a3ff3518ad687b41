"""Which files of its own folder a Python file is made of, read without running them."""

from __future__ import annotations

import ast
import sys
import warnings
from typing import TYPE_CHECKING

from presage.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

_MOST_FILES = 2000


def parse(content: bytes, path: Path) -> ast.Module:
    """Return the syntax tree of a file. Raises InputError that shows the line at which it is no Python."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(content, filename=str(path))
    except SyntaxError as error:
        line = (error.text or "").strip()
        raise InputError(
            f"{path.name}, line {error.lineno or 1}, is not Python: {error.msg}{f': {line}' if line else ''}",
            expected=f"a file that Python {sys.version_info.major}.{sys.version_info.minor} can read",
        ) from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise InputError(f"{path.name} is not Python: {error}", expected="a Python file") from None


def names_of(tree: ast.Module) -> set[str] | None:
    """Return the names that a file may define at its top; None where only running it can tell."""
    names: set[str] = set()
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.ImportFrom) and any(each.name == "*" for each in node.names):
            return None
        bound = _bound_by(node)
        names |= bound
        if not bound or isinstance(node, ast.Name):
            waiting += ast.iter_child_nodes(node)
    return None if "__getattr__" in names else names


def local_files(path: Path, root: Path) -> list[Path]:
    """Return `path` and every file below `root` that it imports, directly or not, in a fixed order."""
    found: set[Path] = set()
    waiting = [path]
    while waiting and len(found) < _MOST_FILES:
        file = waiting.pop()
        if file in found:
            continue
        found.add(file)
        try:
            tree = parse(file.read_bytes(), file)
        except (InputError, OSError):
            continue
        waiting += _imported_by(tree, file, root)
    return sorted(found)


def _bound_by(node: ast.AST) -> set[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return {node.name}
    if isinstance(node, ast.Import | ast.ImportFrom):
        return {(each.asname or each.name).partition(".")[0] for each in node.names}
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        return {node.id}
    return set()


def _imported_by(tree: ast.Module, file: Path, root: Path) -> list[Path]:
    files: list[Path] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for each in node.names:
                files += _files_of(root, each.name.split("."))
        elif isinstance(node, ast.ImportFrom):
            base = root
            if node.level:
                base = file.parents[min(node.level - 1, len(file.parents) - 1)]
            parts = node.module.split(".") if node.module else []
            files += _files_of(base, parts)
            for each in node.names:
                files += _files_of(base, [*parts, each.name])
    return [each for each in files if each.is_relative_to(root)]


def _files_of(base: Path, parts: list[str]) -> list[Path]:
    """Return the files that importing a dotted name from `base` runs: each package's own and the module's."""
    files = [base.joinpath(*parts[:depth], "__init__.py") for depth in range(1, len(parts) + 1)]
    if parts:
        files.append(base.joinpath(*parts[:-1], f"{parts[-1]}.py"))
    return [each for each in files if each.is_file()]
