"""Quality of decisions: each cycle compared with the best placement of its jobs, and whether cycles got worse."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Literal, TypeVar

from broker.flow.model.drift import BYTES, COST, Drift, DriftLimits as DriftLimits, Point, drifts
from broker.flow.statements import quality_rows
from broker.flow.statements.quality_rows import QualityRow
from broker.store.query_context import QueryContext, ResponseModel

AnswerT = TypeVar("AnswerT", bound=ResponseModel)
#: Most cycles in one answer.
MOST_CYCLES = 2000
#: How far back the usual values are learned.
USUAL_WITHIN = timedelta(days=2)


class CausePart(ResponseModel):
    """One part of the costs, actual and best: time, bytes, wait, left_over, share_debt."""

    cause: str
    cost_hs06h: float
    best_hs06h: float


class ShareQuality(ResponseModel):
    """Jobs of a share, and the share's part of the regret."""

    share: str
    jobs: int
    regret_hs06h: float


class QueueQuality(ResponseModel):
    """Cores that placed jobs request at a queue, and cores in the best placement."""

    queue: str
    cores: float
    best_cores: float


class RuleQuality(ResponseModel):
    """The cost of a rule: how much cheaper the best placement would be without it alone; the rule may still be right.

    Attributes:
        chunks: chunks for which it excludes a cheaper queue.
        at_most: whether only a bound is known; pairs that other rules also reject are then counted.
    """

    code: str
    chunks: int
    hs06h: float
    at_most: bool


class BesidePart(ResponseModel):
    """One part of the costs of both placements.

    Attributes:
        cause: time, bytes, wait or share_debt.
        ours_hs06h: cost of our placement.
        panda_hs06h: cost of PanDA's placement.
    """

    cause: str
    ours_hs06h: float
    panda_hs06h: float


class UncomparedJobs(ResponseModel):
    """Jobs that PanDA placed but that are not compared: ``queue_not_in_snapshot`` or ``ours_placed_nothing``."""

    reason: str
    jobs: int


class BesidePanda(ResponseModel):
    """The same jobs as placed by PanDA and by ours, at the prices of the program.

    Attributes:
        chunks: chunks that both placed.
        time_hs06h: extra time for which PanDA's placement holds cores, in HS06 hours; negative if less.
        gb: extra data that PanDA's placement moves, in GB; negative if less.
        parts: each part of the costs.
        our_gb: data that our placement moves, in GB.
        panda_gb: data that PanDA's placement moves, in GB.
        unknown: jobs that are not compared, by cause.
    """

    chunks: int
    time_hs06h: float
    gb: float
    parts: tuple[BesidePart, ...]
    our_gb: float
    panda_gb: float
    unknown: tuple[UncomparedJobs, ...]


class CycleQuality(ResponseModel):
    """One cycle of one VO.

    Attributes:
        tuning: version of the tuning that it used.
        placer: side whose placement is measured.
        state: measured; nothing: no queue passed for any chunk; time_limit; unreadable; beside: PanDA's placement of
            the chunks of a record-only cycle.
        regret_hs06h: extra cost over the best placement; ``regret_percent``: in per cent of the best cost, without jobs
            that have no place in any case; null if nothing was measured.
        bytes_percent: data moved beyond the best placement, in per cent of all input; negative if less.
        even_hs06h: cost of the same jobs in equal parts at every queue that passed.
        beside: if the state is ``beside``, prices of PanDA's placement of the same chunks compared with ours.
    """

    brokerage: str
    decided_at: datetime
    tuning: int
    vo: str
    placer: Literal["ours", "panda"]
    state: Literal["measured", "nothing", "time_limit", "unreadable", "beside"]
    jobs: int
    cost_hs06h: float
    best_hs06h: float
    even_hs06h: float | None
    regret_hs06h: float
    regret_percent: float | None
    gb: float
    best_gb: float
    bytes_percent: float | None
    measure_s: float
    causes: tuple[CausePart, ...]
    shares: tuple[ShareQuality, ...]
    queues: tuple[QueueQuality, ...]
    rules: tuple[RuleQuality, ...]
    beside: BesidePanda | None = None


class WorseCycles(ResponseModel):
    """A figure of a brokerage that got worse and has stayed worse.

    Attributes:
        figure: cost or bytes.
        value: value of the newest cycle in percent; above ``limit`` it is too high.
        usual: previous value; null if unknown.
        cycles: number of cycles above the limit, since ``since``.
    """

    brokerage: str
    figure: Literal["cost", "bytes"]
    value: float
    limit: float
    usual: float | None
    since: datetime
    cycles: int


class Quality(ResponseModel):
    """Quality of decisions, newest cycle first."""

    now: datetime
    since: datetime
    worse: tuple[WorseCycles, ...]
    cycles: tuple[CycleQuality, ...]


def quality(
    query: QueryContext, limits: DriftLimits, *, hours: float = 24.0, brokerage: str | None = None, cycles: int = 200
) -> Quality:
    """The cycles of the last hours, of all brokerages or one."""
    since = query.now - timedelta(hours=hours)
    rows = quality_rows.read(query.connection, since, query.now, brokerage)
    newest = rows[::-1][: min(cycles, MOST_CYCLES)]
    worse = worse_cycles(query, limits)
    return Quality(
        now=query.now,
        since=since,
        worse=tuple(one for one in worse if brokerage in (None, one.brokerage)),
        cycles=tuple(map(cycle_quality, newest)),
    )


def worse_cycles(query: QueryContext, limits: DriftLimits) -> tuple[WorseCycles, ...]:
    """The figures that got worse, of every brokerage."""
    return worse_of(quality_rows.read(query.connection, query.now - USUAL_WITHIN, query.now), limits)


def worse_of(rows: Sequence[QualityRow], limits: DriftLimits) -> tuple[WorseCycles, ...]:
    """The figures that got worse in ``rows``, oldest first; only our own placements count. Pure."""
    points: dict[str, list[Point]] = {}
    for row in rows:
        if row.placer == "ours" and row.state == "measured":
            points.setdefault(row.brokerage, []).append(Point(row.decided_at, row.jobs, figures_of(row)))
    return tuple(_worse(name, drift) for name, series in sorted(points.items()) for drift in drifts(series, limits))


def _worse(brokerage: str, drift: Drift) -> WorseCycles:
    return WorseCycles(
        brokerage=brokerage,
        figure="cost" if drift.name == COST else "bytes",
        value=round(drift.percent, 1),
        limit=round(drift.limit_percent, 1),
        usual=None if math.isnan(drift.usual_percent) else round(drift.usual_percent, 1),
        since=drift.first,
        cycles=drift.count,
    )


def figures_of(row: QualityRow) -> dict[str, float]:
    """The figures of a measured row in percent; a figure with a zero denominator is omitted."""
    work, figures = row.best_hs06h - row.left_hs06h, {}
    if work > 0:
        figures[COST] = 100.0 * max(0.0, row.cost_hs06h - row.best_hs06h) / work
    if row.input_gb > 0:
        figures[BYTES] = 100.0 * (row.gb - row.best_gb) / row.input_gb
    return figures


def cycle_quality(row: QualityRow) -> CycleQuality:
    """A stored row as an answer. Pure."""
    figures = figures_of(row) if row.state == "measured" else {}
    details: Mapping[str, list[list[object]]] = row.details
    even = row.details.get("even_hs06h")
    return CycleQuality(
        **{name: getattr(row, name) for name in ("brokerage", "decided_at", "tuning", "vo", "placer", "state", "jobs")},
        cost_hs06h=round(row.cost_hs06h, 3),
        best_hs06h=round(row.best_hs06h, 3),
        even_hs06h=None if even is None else round(float(even), 3),
        regret_hs06h=round(max(0.0, row.cost_hs06h - row.best_hs06h), 3),
        regret_percent=_rounded(figures.get(COST)),
        gb=round(row.gb, 3),
        best_gb=round(row.best_gb, 3),
        bytes_percent=_rounded(figures.get(BYTES)),
        measure_s=row.measure_s,
        causes=tuple(
            CausePart(cause=name, cost_hs06h=cost, best_hs06h=best)
            for name, (cost, best) in row.details.get("causes", {}).items()
            if row.state != "beside"
        ),
        shares=_lines(ShareQuality, details.get("shares", [])),
        queues=_lines(QueueQuality, details.get("queues", [])),
        rules=_lines(RuleQuality, details.get("rules", [])),
        beside=_beside(row.details) if row.state == "beside" else None,
    )


def _beside(details: Mapping[str, Any]) -> BesidePanda:
    causes, (our_gb, panda_gb) = details["causes"], details["gb"]
    ours, panda = causes["time"]
    return BesidePanda(
        chunks=details["chunks"],
        time_hs06h=round(panda - ours, 3),
        gb=round(panda_gb - our_gb, 3),
        parts=tuple(
            BesidePart(cause=name, ours_hs06h=own, panda_hs06h=other)
            for name, (own, other) in causes.items()
            if name != "left_over"
        ),
        our_gb=our_gb,
        panda_gb=panda_gb,
        unknown=tuple(UncomparedJobs(reason=name, jobs=jobs) for name, jobs in details["unknown"].items()),
    )


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 1)


def _lines(kind: type[AnswerT], rows: Sequence[Sequence[object]]) -> tuple[AnswerT, ...]:
    return tuple(kind(**dict(zip(kind.model_fields, row, strict=True))) for row in rows)


def quality_sentence(answer: Quality) -> str:
    """Summarise the newest measured cycle of each brokerage, and what got worse."""
    newest: dict[str, CycleQuality] = {}
    for one in answer.cycles:
        if one.state == "measured" and one.placer == "ours":
            newest.setdefault(one.brokerage, one)
    if not newest:
        return "No cycle was measured yet."
    words = [
        f"{name}: {one.regret_percent or 0:g} % dearer than the best placement" for name, one in sorted(newest.items())
    ]
    bad = [worse_sentence(one) for one in answer.worse]
    return "; ".join(words) + ". " + ("; ".join(bad) + "." if bad else "Nothing got worse.")


def worse_sentence(one: WorseCycles) -> str:
    """Such as: the last 3 cycles of production_job moved 80 % of the input in vain, limit 40 %, usually 22 %."""
    usual = "" if one.usual is None else f", usually {one.usual:g} %"
    what = "cost {} more than the best placement" if one.figure == "cost" else "moved {} of the input in vain"
    loss = what.format(f"{one.value:g} %")
    return f"{one.cycles} cycles of {one.brokerage} {loss}, limit {one.limit:g} %{usual}"
