"""What all methods of the pilots' interface share: the database, identities, the state of matchers, the draw."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field, replace

import numpy as np
from sqlalchemy import exc

from broker.api.lane import Lane
from broker.pilots.answers.jobs import ViewShelf
from broker.pilots.model.job_request import JobRequest
from broker.pilots.routes.panda.access import Identify, Identity, anybody
from broker.pilots.statements.matches import AVOID_NODE, RETRY_ELSEWHERE, NoMatch
from broker.store.connection.database import Database
from broker.store.connection.errors import DatabaseUnavailable

SEED_BITS = 64
AT_ONCE, WAIT_S = 4, 2.0
"""Requests that are worked on at once, and seconds that one waits for its turn."""
MOST_REPORTS = 500
"""Most reports in one request: each is a transaction, and a request keeps its place in the lane until the last."""
AVOIDED = "avoid node: jobs of several tasks fail at this node, so it gets none for a while"
"""Message to a pilot of such a node, with the status that there are no jobs."""
FAILED_HERE = "retry elsewhere: input of jobs that wait here failed at node {node}, which gets them again from {until}"
"""Message to a pilot for which there are no others."""
UNAVAILABLE = (DatabaseUnavailable, exc.OperationalError, exc.TimeoutError)
"""Errors raised when there is no answer in time: no connection, no free one, a lock, a limit."""


def no_match_message(missed: NoMatch | None) -> str | None:
    """The message to the pilot of a node that gets no jobs, or not those that wait; None: as for any other.

    >>> from datetime import datetime
    >>> no_match_message(NoMatch("Q", RETRY_ELSEWHERE, {}, "n1", datetime(2026, 8, 1, 12, 30)))
    'retry elsewhere: input of jobs that wait here failed at node n1, which gets them again from 2026-08-01T12:30:00'
    """
    if missed is None or missed.reason not in (AVOID_NODE, RETRY_ELSEWHERE):
        return None
    if missed.reason == AVOID_NODE or missed.held_until is None:
        return AVOIDED
    return FAILED_HERE.format(node=missed.node, until=missed.held_until.isoformat(timespec="seconds"))


@dataclass(frozen=True)
class PilotService:
    """The service behind the routes.

    Attributes:
        database: database of a standalone installation.
        identify: identifies callers.
        views: state that matchers keep between requests.
        lane: where requests are worked on, so that pilots take a share of the connections and no more.
    """

    database: Database
    identify: Identify = anybody
    views: ViewShelf = field(default_factory=ViewShelf)
    lane: Lane = field(default_factory=lambda: Lane("pilots", AT_ONCE, WAIT_S))

    def generator(self) -> np.random.Generator:
        """The random generator of one draw."""
        return np.random.default_rng(secrets.randbits(SEED_BITS))

    def own_jobs_only(self, request: JobRequest, who: Identity) -> JobRequest:
        """The request of a user without the role, limited to that user's jobs."""
        return replace(request, user=who.name[:250])
