"""Stored decisions in the form of the API, for their recipients."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa

from broker.api.plain import as_json, plain
from broker.decisions.answers.decision import stored_explanations
from broker.domain.decisions import StoredDecision


def bodies(connection: sa.Connection, decisions: Sequence[StoredDecision]) -> list[bytes]:
    """Each decision as an object of ``decisions`` in the answer about its task, as JSON."""
    return [as_json(plain(one)) for one in stored_explanations(connection, decisions)]
