"""The page of shadow mode: the verdict of the gate, and its basis.

Comparisons that take minutes are not made for a page: it names the command that makes them. A verdict covers days, so a
process shows the last one again for a minute; the page tells where its period ends.
"""

from __future__ import annotations

from fastapi import Response
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

from broker.access.policies import DECIDE
from broker.alongside.answers.gate import DAY, gate_file
from broker.alongside.answers.sentences import (
    CONSEQUENCES,
    SHARES,
    SIDES,
    compared_sentences,
    consequence_cells,
    gate_cells,
    share_cells,
    verdict_sentence,
    window_sentence,
)
from broker.alongside.answers.shadow_models import Gate
from broker.alongside.model.gate_file import GateFile
from broker.alongside.routes.shadow import judged
from broker.alongside.statements.own_placements import count_decisions
from broker.api.deciding import decided
from broker.api.guarded_route import allow
from broker.api.state import ApiState, State, from_cache, query_context
from broker.web.rendering import page_router, show

router = page_router(tag="alongside")
MOST_ROWS, MOST_DECISIONS = 50, 50_000
"""Rows of a table, and decisions that are compared for a page."""
VERDICT_CACHE_S = 60.0
_VERDICT = "verdict of the page of shadow mode"


@router.get("/shadow")
@allow(DECIDE)
async def shadow_page(request: Request, api: State) -> Response:
    """Whether the work of PanDA's brokers may be handed over."""
    read = criteria, _ = await run_in_threadpool(gate_file, None, api.folder)
    if await run_in_threadpool(_are_many, api, criteria):
        about = {"days": criteria.days, "more_than_decisions": MOST_DECISIONS}
        return show(request, "alongside/shadow_many", about, title="Beside PanDA")
    return await decided(request, api, lambda proceed: _shown(request, lately_judged(api, read)))


def lately_judged(api: ApiState, read: tuple[GateFile, str]) -> Gate:
    """Return the verdict by the criteria read from ``gate.yaml``; for a minute, the last one by the same criteria."""
    return from_cache(api, _VERDICT, VERDICT_CACHE_S, lambda: judged(api, read=read), by=read)


def _are_many(api: ApiState, criteria: GateFile) -> bool:
    with query_context(api) as query:
        since = query.now - criteria.days * DAY
        return count_decisions(query.connection, since, query.now, MOST_DECISIONS + 1) > MOST_DECISIONS


def _shown(request: Request, verdict: Gate) -> Response:
    shadow = verdict.shadow
    tables = [
        ("What either side's places mean", CONSEQUENCES, [consequence_cells(one) for one in shadow.consequences]),
        ("What shares get", SHARES, [share_cells(one) for one in shadow.share_consequences]),
    ]
    return show(
        request,
        "alongside/shadow",
        verdict,
        title="Beside PanDA",
        verdict=verdict_sentence(verdict),
        criteria=[gate_cells(one) for one in verdict.lines],
        sentences=[window_sentence(shadow), *compared_sentences(shadow)],
        sides=SIDES,
        tables=[(caption, headings, rows) for caption, headings, rows in tables if rows],
        rules=shadow.rules[:MOST_ROWS],
        queues=shadow.queues[:MOST_ROWS],
    )
