from __future__ import annotations

import pytest

from presage.wording import counted


@pytest.mark.parametrize(("number", "words"), [(0, "0 rows"), (1, "1 row"), (2, "2 rows"), (1000, "1,000 rows")])
def test_nouns_agree_with_their_number(number: int, words: str) -> None:
    assert counted(number, "row") == words
