"""Tables that show themselves: as HTML in a notebook, as text anywhere else."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from html import escape
from io import StringIO


@dataclass(frozen=True)
class Table:
    """A title, the names of columns, and rows of words."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def as_html(self) -> str:
        """Return the table for a notebook."""
        head = "".join(f"<th>{escape(name)}</th>" for name in self.columns)
        body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in self.rows)
        caption = f"<caption>{escape(self.title)}</caption>"
        return f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"

    def as_text(self, width: int = 140) -> str:
        """Return the table for a terminal."""
        from rich import box
        from rich.console import Console
        from rich.table import Table as RichTable

        table = RichTable(box=box.SIMPLE_HEAD, pad_edge=False)
        for name in self.columns:
            table.add_column(name, overflow="fold")
        for row in self.rows:
            table.add_row(*(cell.replace("[", r"\[") for cell in row))
        out = StringIO()
        console = Console(file=out, width=width, highlight=False)
        console.print(self.title, markup=False)
        console.print(table)
        return out.getvalue()


class Shown(ABC):
    """Something that shows itself as tables."""

    @abstractmethod
    def tables(self) -> tuple[Table, ...]:
        """Return what is shown."""

    def _repr_html_(self) -> str:
        return "".join(table.as_html() for table in self.tables())

    def __repr__(self) -> str:
        return "\n".join(table.as_text() for table in self.tables())
