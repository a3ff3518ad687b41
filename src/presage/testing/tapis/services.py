"""What the services of the fake answer, one method for each operation."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from presage.testing.tapis.machine import FINAL, FakeJob, Machine
from presage.testing.tapis.search import SUMMARY, listed, matching
from presage.testing.tapis.tokens import Signer

ROUTES = {
    "tenants.list_sites": ("GET", "/v3/sites"),
    "tenants.list_tenants": ("GET", "/v3/tenants"),
    "authenticator.create_token": ("POST", "/v3/oauth2/tokens"),
    "systems.getSystems": ("GET", "/v3/systems"),
    "systems.getSystem": ("GET", "/v3/systems/{systemId}"),
    "apps.createAppVersion": ("POST", "/v3/apps"),
    "apps.getApp": ("GET", "/v3/apps/{appId}/{appVersion}"),
    "jobs.submitJob": ("POST", "/v3/jobs/submit"),
    "jobs.getJobList": ("GET", "/v3/jobs/list"),
    "jobs.getJobSearchListByPostSqlStr": ("POST", "/v3/jobs/search"),
    "jobs.getJob": ("GET", "/v3/jobs/{jobUuid}"),
    "jobs.getJobStatus": ("GET", "/v3/jobs/{jobUuid}/status"),
    "jobs.getJobHistory": ("GET", "/v3/jobs/{jobUuid}/history"),
    "jobs.getJobOutputDownload": ("GET", "/v3/jobs/{jobUuid}/output/download/{outputPath}"),
    "jobs.cancelJob": ("POST", "/v3/jobs/{jobUuid}/cancel"),
    "jobs.sendEvent": ("POST", "/v3/jobs/{jobUuid}/sendEvent"),
}
OPEN = ("tenants.list_sites", "tenants.list_tenants", "authenticator.create_token")
"""What needs no token."""
TENANT = "fake"
_MAX_NAME_CHARS = 64
_MAX_TAG_CHARS = 126
_MOST_EVENTS = 100
"""Of a history, where no other number is asked for."""


class Call(NamedTuple):
    """A request: the parts of its path, its query, its body, and who asks."""

    path: Mapping[str, str]
    query: Mapping[str, str]
    body: Any
    user: str


class NoError(Exception):
    """A refusal, with the status of HTTP that says so."""

    def __init__(self, status: int, words: str) -> None:
        self.status = status
        super().__init__(words)


class Services:
    """The services of one tenant with one execution system."""

    def __init__(self, base_url: str, system: dict[str, Any], users: dict[str, str], machine: Machine) -> None:
        self.base_url = base_url
        self.system = system
        self.users = users
        self.machine = machine
        self.signer = Signer()
        self.token_s = 14_400.0
        self.apps: dict[tuple[str, str], dict[str, Any]] = {}
        self.entry_points: dict[str, str] = {}
        """Of images, in words of a shell; those that are not here run their arguments."""

    def list_sites(self, call: Call) -> tuple[int, Any]:
        site = {"site_id": "here", "primary": True, "base_url": self.base_url, "services": ["jobs"]}
        return 200, [{**site, "site_admin_tenant_id": TENANT}]

    def list_tenants(self, call: Call) -> tuple[int, Any]:
        tenant = {"tenant_id": TENANT, "base_url": self.base_url, "site_id": "here", "status": "active"}
        services = dict.fromkeys(("token_service", "security_kernel", "authenticator"), self.base_url)
        return 200, [{**tenant, **services, "owner": "nobody", "public_key": "none"}]

    def create_token(self, call: Call) -> tuple[int, Any]:
        username, password = call.body.get("username"), call.body.get("password")
        if call.body.get("grant_type") != "password" or self.users.get(username) != password:
            raise NoError(401, "Invalid username/password combination.")
        claims = {"iss": self.base_url, "sub": f"{username}@{TENANT}", "tapis/tenant_id": TENANT}
        claims |= {"tapis/token_type": "access", "tapis/username": username, "tapis/account_type": "user"}
        token = self.signer.sign(claims, self.token_s)
        return 201, {"access_token": {"access_token": token, "expires_in": int(self.token_s), "jti": "1"}}

    def get_systems(self, call: Call) -> tuple[int, Any]:
        return 200, [self.system]

    def get_system(self, call: Call) -> tuple[int, Any]:
        if call.path["systemId"] != self.system["id"]:
            raise NoError(404, f"SYSAPI_NOT_FOUND There is no system {call.path['systemId']}.")
        return 200, self.system

    def create_app(self, call: Call) -> tuple[int, Any]:
        key = (call.body["id"], call.body["version"])
        if key in self.apps:
            raise NoError(409, f"APPAPI_APP_EXISTS The application {key} exists.")
        self.apps[key] = {"runtime": "DOCKER", "enabled": True, **call.body, "tenant": TENANT, "owner": call.user}
        return 201, {"url": f"{self.base_url}/v3/apps/{key[0]}"}

    def get_app(self, call: Call) -> tuple[int, Any]:
        found = self.apps.get((call.path["appId"], call.path["appVersion"]))
        if found is None:
            raise NoError(404, f"APPAPI_NOT_FOUND There is no application {call.path['appId']}.")
        return 200, found

    def submit_job(self, call: Call) -> tuple[int, Any]:
        request = {"execSystemLogicalQueue": self.system["batchDefaultLogicalQueue"], **call.body}
        self._check(request)
        image = self.apps[request["appId"], request["appVersion"]].get("containerImage")
        entry_point = self.entry_points.get(image or "", "")
        return 200, dict(self.machine.submit(request, call.user, TENANT, entry_point).facts)

    def list_jobs(self, call: Call) -> tuple[int, Any]:
        return 200, listed(self._own(call.user), call.query, SUMMARY)

    def search_jobs(self, call: Call) -> tuple[int, Any]:
        try:
            found = matching(self._own(call.user), (call.body or {}).get("search") or [])
        except ValueError as error:
            raise NoError(400, f"SEARCH_INVALID {error}") from None
        return 200, listed(found, call.query, SUMMARY)

    def get_job(self, call: Call) -> tuple[int, Any]:
        return 200, dict(self._job(call).facts)

    def get_job_status(self, call: Call) -> tuple[int, Any]:
        return 200, {name: self._job(call).facts[name] for name in ("status", "condition")}

    def get_job_history(self, call: Call) -> tuple[int, Any]:
        skip, limit = int(call.query.get("skip", 0)), int(call.query.get("limit", _MOST_EVENTS))
        return 200, self._job(call).history[skip:][:limit]

    def get_job_output(self, call: Call) -> tuple[int, Any]:
        job = self._job(call)
        path = job.folder / call.path["outputPath"]
        if job.status not in FINAL or path.parent != job.folder or not path.is_file():
            raise NoError(404, f"JOBS_NO_OUTPUT There is no {call.path['outputPath']} yet.")
        return 200, path.read_bytes()

    def cancel_job(self, call: Call) -> tuple[int, Any]:
        self.machine.cancel(self._active(call))
        return 200, {"message": f"Request to cancel job {call.path['jobUuid']} has been accepted."}

    def send_event(self, call: Call) -> tuple[int, Any]:
        detail = call.body.get("eventDetail") or "DEFAULT"
        self.machine.tell(self._active(call), "JOB_USER_EVENT", detail, call.body["eventData"])
        return 200, {"message": "Event received."}

    def _own(self, user: str) -> list[dict[str, Any]]:
        return [dict(job.facts) for job in self.machine.jobs.values() if job.facts["owner"] == user]

    def _job(self, call: Call) -> FakeJob:
        job = self.machine.jobs.get(call.path["jobUuid"])
        if job is None:
            raise NoError(404, f"TAPIS_NOT_FOUND There is no job {call.path['jobUuid']}.")
        if job.facts["owner"] != call.user:
            raise NoError(403, f"JOBS_MISMATCHED_OWNER The job is not {call.user}'s.")
        return job

    def _active(self, call: Call) -> FakeJob:
        job = self._job(call)
        if job.status in FINAL:
            raise NoError(409, f"JOBSAPI_IN_TERM_STATE The job is {job.status} already.")
        return job

    def _check(self, request: Mapping[str, Any]) -> None:
        """Refuse what the jobs service refuses, also where its published interface does not say so."""
        if (request["appId"], request["appVersion"]) not in self.apps:
            raise NoError(404, f"There is no application {request['appId']} of version {request['appVersion']}.")
        if request.get("execSystemId") != self.system["id"]:
            raise NoError(400, f"There is no system {request.get('execSystemId')}.")
        if len(request["name"]) > _MAX_NAME_CHARS or any(
            len(tag) > _MAX_TAG_CHARS for tag in request.get("tags", [])
        ):
            raise NoError(400, "TAPIS_JSON_VALIDATION_ERROR A name or a tag is too long.")
        for arguments in (request.get("parameterSet") or {}).values():
            texts = [json.dumps(argument, sort_keys=True) for argument in arguments]
            if len(set(texts)) < len(texts):
                raise NoError(400, "TAPIS_JSON_VALIDATION_ERROR Two arguments are the same.")
        self._check_queue(request)

    def _check_queue(self, request: Mapping[str, Any]) -> None:
        name = request["execSystemLogicalQueue"]
        queue = next((queue for queue in self.system["batchLogicalQueues"] if queue["name"] == name), None)
        if queue is None:
            raise NoError(400, f"JOBS_INVALID_QUEUE The system {self.system['id']} has no queue {name}.")
        sizes = {"nodeCount": "maxNodeCount", "coresPerNode": "maxCoresPerNode", "memoryMB": "maxMemoryMB"}
        for asked, limit in {**sizes, "maxMinutes": "maxMinutes"}.items():
            if request.get(asked, 1) > queue[limit]:
                raise NoError(400, f"JOBS_Q_EXCEEDED {asked}={request[asked]} is more than {name} gives.")


HANDLERS: dict[str, Callable[[Services, Call], tuple[int, Any]]] = {
    "tenants.list_sites": Services.list_sites,
    "tenants.list_tenants": Services.list_tenants,
    "authenticator.create_token": Services.create_token,
    "systems.getSystems": Services.get_systems,
    "systems.getSystem": Services.get_system,
    "apps.createAppVersion": Services.create_app,
    "apps.getApp": Services.get_app,
    "jobs.submitJob": Services.submit_job,
    "jobs.getJobList": Services.list_jobs,
    "jobs.getJobSearchListByPostSqlStr": Services.search_jobs,
    "jobs.getJob": Services.get_job,
    "jobs.getJobStatus": Services.get_job_status,
    "jobs.getJobHistory": Services.get_job_history,
    "jobs.getJobOutputDownload": Services.get_job_output,
    "jobs.cancelJob": Services.cancel_job,
    "jobs.sendEvent": Services.send_event,
}
