from __future__ import annotations

import httpx
import pytest

from presage.client.rest import ServiceClient
from presage.errors import UnknownNameError


@pytest.mark.parametrize("job_id", ["nosuch", "", "../tokens", "j0123456789a/stop", "J0123456789A"])
def test_what_is_no_id_of_a_job_is_never_asked_for(job_id: str) -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        raise AssertionError(request.url)

    client = ServiceClient("http://service", "token", transport=httpx.MockTransport(answer))
    for ask in (client.job, client.stop, client.decisions, client.events):
        with pytest.raises(UnknownNameError, match="presage jobs"):
            ask(job_id)
    client.close()
