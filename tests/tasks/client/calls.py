"""Calls as panda-client 2.2.0 makes them, and task parameters as its ``prun`` writes them."""

from __future__ import annotations

import re
import uuid
from dataclasses import dataclass
from typing import Any

import httpx


@dataclass
class Caller:
    """A client that calls with a token."""

    client: httpx.Client

    def post(self, method: str, **values: Any) -> dict[str, Any]:
        return self.answer_of(self.client.post(f"/api/v1/{method}", json=values))

    def get(self, method: str, **values: Any) -> dict[str, Any]:
        return self.answer_of(self.client.get(f"/api/v1/{method}", params=values))

    def upload(self, name: str, content: bytes) -> dict[str, Any]:
        response = self.client.post(
            "/api/v1/file_server/upload_cache_file", files={"file": (name, content, "application/octet-stream")}
        )
        return self.answer_of(response)

    def submit(self, parameters: dict[str, Any], parent: int | None = None) -> dict[str, Any]:
        return self.post("task/submit", task_parameters=parameters, parent_tid=parent)

    def submit_task(self, parameters: dict[str, Any], parent: int | None = None) -> int:
        """Submit a task and return its number, taken from the message as the client does."""
        answer = self.submit(parameters, parent)
        assert answer["success"], answer
        match = re.search(r"jediTaskID=(\d+)", answer["message"])
        assert match is not None, answer
        return int(match[1])

    def answer_of(self, response: httpx.Response) -> dict[str, Any]:
        assert response.status_code == 200, response.text
        answer: dict[str, Any] = response.json()
        assert set(answer) == {"success", "message", "data"}
        return answer


def sandbox_name(kind: str = "jobO") -> str:
    return f"{kind}.{uuid.uuid4()}.tar.gz"


def prun(name: str = "user.ada.t1", archive: str | None = None, **overrides: Any) -> dict[str, Any]:
    """Parameters sent by ``prun --exec './run.sh > out.txt' --outDS NAME --outputs out.txt --noBuild --nJobs 2``."""
    out = f"{name}.$JEDITASKID._${{SN/P}}.out.txt"
    items: list[dict[str, Any]] = [
        {"type": "constant", "value": '-j "" --sourceURL ${SURL}'},
        {"type": "constant", "value": "-r ."},
        {"type": "constant", "value": "__delimiter__", "hidden": True},
        *([] if archive is None else [{"type": "constant", "value": f"-a {archive}"}]),
        {
            "type": "template", "value": out, "param_type": "output", "dataset": f"{name}_out.txt/",
            "container": f"{name}_out.txt/", "hidden": True,
        },
        {"type": "constant", "value": f"-o \"{{'out.txt': '{out}'}}\""},
        {"type": "constant", "value": '-p "', "padding": False},
        {"type": "constant", "value": "./run.sh%20%3E%20out.txt", "padding": False},
        {"type": "constant", "value": '"'},
    ]  # fmt: skip
    defaults = {
        "taskName": f"{name}/", "uniqueTaskName": True, "vo": "atlas", "architecture": None, "transUses": "",
        "transHome": None, "processingType": "panda-client-2.2.0-jedi-run", "prodSourceLabel": "user", "site": None,
        "excludedSite": [], "includedSite": None, "nEvents": 2, "nEventsPerJob": 1, "cliParams": "prun ...",
        "osInfo": "Linux", "nMaxFilesPerJob": 200, "respectSplitRule": True, "sourceURL": "http://127.0.0.1:1",
        "log": {
            "dataset": f"{name}.log/", "container": f"{name}.log/", "type": "template", "param_type": "log",
            "value": f"{name}.log.$JEDITASKID.${{SN}}.log.tgz",
        },
        "jobParameters": items, "noInput": True,
    }  # fmt: skip
    return {**defaults, **overrides}
