"""What a job is to run, as one value of the environment.

Tapis writes arguments and variables into a script of its own. A text of letters, digits, dashes and underscores
means the same to every shell, so everything else travels in one: packed here, unpacked by `inside`.
"""

from __future__ import annotations

import base64
import binascii
import gzip
import json
import zlib
from typing import Any

VARIABLE = "PRESAGE_TAPIS_JOB"
RATE_VARIABLE = "PRESAGE_TAPIS_CLOCK_RATE"
"""How many times as fast as a clock a cluster's time passes; set by clusters that are made for tests."""
MAX_CHARS = 100_000
"""The kernel hands a program no variable longer than 128 KiB."""


def pack(job: dict[str, Any]) -> str:
    """Return a document of texts and numbers in letters, digits, dashes and underscores."""
    plain = json.dumps(job).encode()
    return base64.urlsafe_b64encode(gzip.compress(plain, mtime=0)).decode().rstrip("=")


def unpack(text: str) -> dict[str, Any]:
    """Return the document that was packed. Raises ValueError for any other text."""
    try:
        packed = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        document = json.loads(gzip.decompress(packed))
    except (binascii.Error, OSError, EOFError, zlib.error) as error:
        raise ValueError(f"not a packed job: {error}") from None
    if not isinstance(document, dict):
        raise ValueError("not a packed job")  # noqa: TRY004  (the text is wrong, not its type)
    return document
