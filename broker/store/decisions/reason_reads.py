"""Why stored decisions did not choose a queue or nucleus, read without building the decisions.

A list needs one code from each of hundreds of decisions. If the code follows from the packed reasons and the places of
the chosen candidates, nothing else of a row is unpacked; rows of another form are read as a whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import text
from sqlalchemy.engine import Connection

from broker.codec.packed_candidates import CandidatesCorruptError, unpack_places
from broker.codec.packed_reasons import ReasonsCorruptError, unpack_reasons
from broker.codec.reason_at_queue import PlaceInLegend, codes_at as codes_of, place_in
from broker.domain.chosen_candidates import Legend
from broker.store.connection.plain_rows import tuples
from broker.store.decisions import legends
from broker.store.decisions.decision_rows import REASONS_ALONE, by_id, unreadable

_READ = text("""
    SELECT id, legend, reasons, candidates FROM broker.stored_decisions
    WHERE id = ANY(:ids) AND decided_at >= :first AND decided_at <= :last""")


def codes_at(connection: Connection, ids: Sequence[int], first: datetime, last: datetime, queue: str) -> dict[int, str]:
    """Why a queue or nucleus was rejected, by the number of each decision that did not choose it.

    Args:
        connection: the connection to read from.
        ids: numbers of the decisions.
        first: no decision is older (aware).
        last: no decision is newer (aware).
        queue: unified queue or nucleus.

    Raises:
        DecisionUnreadable: one of the decisions is damaged.
        LegendUnreadable: the legend of one of them is damaged.
    """
    rows = tuples(connection, _READ, {"ids": list(ids), "first": first, "last": last})
    known = legends.read(connection, [legend for _, legend, *_ in rows if legend is not None])
    code_by_number = _codes(rows, known, queue)
    others = [number for number, *_ in rows if number not in code_by_number]
    if others:
        decisions = by_id(connection, others, first, last, REASONS_ALONE)
        codes = codes_of([stored.record.decision for stored in decisions], queue)
        code_by_number |= {stored.id: code for stored, code in zip(decisions, codes, strict=True)}
    return {number: code for number, code in code_by_number.items() if code is not None}


def _codes(rows: Iterable[tuple[Any, ...]], known: Mapping[int, Legend], queue: str) -> dict[int, str | None]:
    """The code of each row whose packed form determines it; None if the queue was chosen."""
    places = {number: place_in(legend, queue) for number, legend in known.items()}
    # much work is rejected alike
    alike: dict[tuple[int, bytes], tuple[bool, str | None]] = {}
    codes: dict[int, str | None] = {}
    for number, legend, reasons, candidates in rows:
        place = None if legend is None or reasons is None else places.get(legend)
        if place is None:
            continue
        key = legend, bytes(reasons)
        try:
            if key not in alike:
                alike[key] = _code(place, key[1])
            follows, code = alike[key]
            if follows:
                chosen = unpack_places(place.legend, None if candidates is None else bytes(candidates))
                if chosen is not None:
                    codes[number] = code if set(place.candidates).isdisjoint(chosen) else None
        except (ReasonsCorruptError, CandidatesCorruptError) as error:
            raise unreadable(number, error) from error
    return codes


def _code(place: PlaceInLegend, packed: bytes) -> tuple[bool, str | None]:
    """Whether the packed reasons alone determine the code of the queue, and that code."""
    reasons = unpack_reasons(place.legend, packed)
    follows = reasons.steps is None and not place.is_refused(reasons)
    return follows, place.code(reasons) if follows else None
