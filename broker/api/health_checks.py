"""Health checks on a connection and a thread of their own, so that probes are answered however busy everything else is.

Probes that arrive during a check share the result of the next one: a flood of probes costs no more than two.
"""

from __future__ import annotations

import asyncio
import threading
from typing import Literal

from pydantic import BaseModel

from broker.api.lane import Lane, LaneBusy
from broker.api.state import ApiState
from broker.errors import BrokerError
from broker.store.connection.transient import TRANSIENT_ERRORS
from broker.store.schema import migrate
from broker.store.service import services

NAME = "health"
Code = Literal["ok", "database_unavailable", "schema", "no_leader"]
_making = threading.Lock()


class Check(BaseModel):
    """The result of one check.

    Attributes:
        name: ``database``, ``schema`` or ``leader``.
        ok: whether the check passed.
        code: finding.
        age_s: seconds since the last sign of life, if there is one.
    """

    name: str
    ok: bool
    code: Code
    age_s: float | None = None


_UNAVAILABLE = Check(name="database", ok=False, code="database_unavailable")


class HealthChecks:
    """The checks of one application, ``api``. Used from a single event loop."""

    def __init__(self, api: ApiState) -> None:
        section = api.configuration.database
        self._database = api.database.sibling(
            "gridbroker health",
            1,
            statement_timeout_s=section.statement_timeout_s,
            pool_timeout_s=section.wait_s,
        )
        self._lane = Lane(NAME, 1, section.statement_timeout_s)
        self._turn, self._begun = asyncio.Lock(), 0
        self._results: list[Check] = []

    async def results(self) -> list[Check]:
        """Return checks made after this call; the leader is checked last, and only if the others are good."""
        begun_before = self._begun
        async with self._turn:
            if self._begun == begun_before:
                self._begun += 1
                try:
                    self._results = await self._lane.run(self._look)
                except LaneBusy:
                    self._results = [_UNAVAILABLE]
            return self._results

    def close(self) -> None:
        """Close the connection."""
        self._lane.close()
        self._database.close()

    def _look(self) -> list[Check]:
        checks = [Check(name="database", ok=True, code="ok")]
        try:
            migrate.check(self._database)
            with self._database.begin() as connection:
                age_s = services.newest_sign_of_life_s(connection)
        except TRANSIENT_ERRORS:
            return [_UNAVAILABLE]
        except BrokerError:
            return [*checks, Check(name="schema", ok=False, code="schema")]
        led = age_s is not None and age_s <= services.SIGN_OF_LIFE_WITHIN_S
        return [
            *checks,
            Check(name="schema", ok=True, code="ok"),
            Check(name="leader", ok=led, code="ok" if led else "no_leader", age_s=age_s),
        ]


def health_checks_of(api: ApiState) -> HealthChecks:
    """Return the checks of an application, created at the first request."""
    with _making:
        checks = api.parts.get(NAME)
        if not isinstance(checks, HealthChecks):
            checks = api.parts[NAME] = HealthChecks(api)
            api.at_end.append(checks.close)
        return checks
