"""Requests to PanDA's API where PanDA itself ends jobs, and its answers. Pure.

Source: PanDA server 1.0.4, ``POST /v1/job/kill``, ``GET /v1/system/get_user_attributes`` and the daemons that end
jobs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from broker.lifecycle.model.jobs import FAST_REBROKERAGE, REASSIGNED

KILL_PATH = "/v1/job/kill"
IDENTITY_PATH = "/v1/system/get_user_attributes"
#: With these codes PanDA's own daemons keep the finished work of event-service jobs.
_KEEPS_UNMERGED = frozenset({FAST_REBROKERAGE, REASSIGNED})


class UnusableAnswerError(Exception):
    """An answer from PanDA that says nothing about the jobs."""


@dataclass(frozen=True)
class Identity:
    """The identity under which PanDA knows this client.

    Attributes:
        name: the name of the user.
        production: whether PanDA grants the production role, without which only one's own jobs can be ended.
        fqans: the groups and roles that PanDA sees.
    """

    name: str
    production: bool
    fqans: tuple[str, ...] = ()

    @property
    def role(self) -> str:
        """The role in words."""
        return "production role" if self.production else "no production role"


@dataclass(frozen=True)
class KillRequest:
    """Jobs that PanDA is asked to end, all for one reason.

    Attributes:
        code: kill code.
        pandaids: the jobs.
    """

    code: int
    pandaids: tuple[int, ...]

    @property
    def body(self) -> dict[str, Any]:
        """The body of the request."""
        options = ["keepUnmerged"] if self.code in _KEEPS_UNMERGED else []
        return {"job_ids": list(self.pandaids), "code": self.code, "kill_options": options}


def kill_requests(jobs: Iterable[tuple[int, int]], most: int) -> list[KillRequest]:
    """Group jobs by kill code into requests of at most ``most`` jobs, in the order of the first job of each."""
    by_code: dict[int, list[int]] = {}
    requests: list[tuple[int, KillRequest]] = []
    order: dict[int, int] = {}
    for position, (pandaid, code) in enumerate(jobs):
        order.setdefault(pandaid, position)
        by_code.setdefault(code, []).append(pandaid)
    for code, pandaids in by_code.items():
        for start in range(0, len(pandaids), most):
            chunk = tuple(pandaids[start : start + most])
            requests.append((order[chunk[0]], KillRequest(code, chunk)))
    return [request for _, request in sorted(requests, key=lambda pair: pair[0])]


def _data(document: Any) -> Any:
    if not isinstance(document, dict):
        raise UnusableAnswerError("the answer is no object")
    if document.get("success") is not True:
        raise UnusableAnswerError(f"refused: {str(document.get('message') or 'no reason given')[:200]}")
    return document.get("data")


def accepted(document: Any, pandaids: Sequence[int]) -> frozenset[int]:
    """The jobs that PanDA reports as ended or told to stop.

    PanDA answers success even where it ends nothing: each job has its own value, true or false, or a list that begins
    with it for a job of the event service.

    Raises:
        UnusableAnswerError: PanDA refuses, or does not answer for each of the jobs.
    """
    answers = _data(document)
    if not isinstance(answers, list) or len(answers) != len(pandaids):
        raise UnusableAnswerError(f"the answer does not say what became of each of {len(pandaids)} jobs")
    return frozenset(pandaid for pandaid, answer in zip(pandaids, answers, strict=True) if _ended(answer))


def _ended(answer: Any) -> bool:
    return answer is True or (isinstance(answer, list) and answer[:1] == [True])


def identity_of(document: Any) -> Identity:
    """The identity in PanDA's answer.

    Raises:
        UnusableAnswerError: PanDA refuses, or does not say whether we have the production role.
    """
    data = _data(document)
    if not isinstance(data, dict) or not isinstance(data.get("is_production_user"), bool):
        raise UnusableAnswerError("the answer does not say whether we have the production role")
    fqans = data.get("fqans")
    name = data.get("user_dn_clean") or data.get("user_dn_raw") or "nobody"
    return Identity(str(name), data["is_production_user"], tuple(map(str, fqans)) if isinstance(fqans, list) else ())
