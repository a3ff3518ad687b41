"""Running what somebody else wrote: quiet on standard output, and its failures told in its own lines."""

from __future__ import annotations

import contextlib
import random
import sys
import traceback
from typing import TYPE_CHECKING

from presage.errors import InputError, PresageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

_MOST_LINES = 3
_LONGEST_MESSAGE = 600


@contextlib.contextmanager
def running_user_code(
    argv: list[str], explained: Callable[[BaseException, str], InputError], doing: str
) -> Iterator[None]:
    """Within it, prints go to standard error, the command line is `argv` and chance is fixed.

    Whatever goes wrong, leaving the program included, is raised as what `explained` makes of it.
    """
    arguments, state = sys.argv, random.getstate()
    sys.argv = argv
    random.seed(0)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    except PresageError:
        raise
    # The user's code may raise anything at all, and may end the program while it is imported.
    except (Exception, SystemExit) as error:  # noqa: BLE001
        raise explained(error, doing) from None
    finally:
        sys.argv = arguments
        random.setstate(state)


def explain(error: BaseException, doing: str, root: Path) -> InputError:
    """Return `error` with the last lines of files below `root` that led to it."""
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename.startswith(f"{root}/") and "site-packages" not in frame.filename
    ]
    lines = [
        f"{frame.filename.removeprefix(f'{root}/')}, line {frame.lineno}, in {frame.name}: {frame.line}"
        for frame in frames[-_MOST_LINES:]
    ]
    message = " ".join(str(error).split())[:_LONGEST_MESSAGE]
    told = f"{type(error).__name__}: {message}" if message else type(error).__name__
    return InputError(
        f"{told}, while {doing}" + (f" ({'; '.join(lines)})" if lines else ""), remedy=_remedy_for(error)
    )


def _remedy_for(error: BaseException) -> str:
    if isinstance(error, SystemExit):
        return 'Put what trains behind `if __name__ == "__main__":`, so that the file can be imported'
    if isinstance(error, ModuleNotFoundError):
        return f"Install {error.name} in the environment of presage, or import it where it is needed"
    if isinstance(error, RecursionError):
        return "See that no function calls itself without end"
    return "Run the function by itself to see the whole of it"
