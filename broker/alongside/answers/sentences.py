"""Shadow mode in sentences, and in the cells of its tables."""

from __future__ import annotations

from broker.alongside.answers.shadow_models import (
    AgreementLine,
    ByChance,
    Consequence,
    Criterion,
    DecidedBy,
    Gate,
    GateLine,
    Interval,
    PlacedByOurs,
    Shadow,
    ShareConsequence,
)

NOTHING = "PanDA made no jobs in this time, and let no task wait, that could be compared"
SIDES = {"panda_only": "PanDA placed, ours refused", "ours_only": "PanDA waits, ours brokers"}
UNCOMPARED = {
    "no_decision": "ours had not decided about the chunk",
    "too_old": "the last decision of ours was too old",
    "no_dataset": "the input of the jobs is not in filestable4 any more",
}
BY = {"plugin": "JEDI's plug-in", "agent": "an agent of ours"}
PLACED = {
    "panda": "as PanDA placed",
    "ours": "as ours would",
    "panda_only": "queues of PanDA's only",
    "ours_only": "queues of ours only",
}
CONSEQUENCES_TITLE = "What it means where jobs go, by the records of the queues in this time"
CONSEQUENCES = (
    "brokerage", "jobs placed", "queues", "jobs", "input over WAN", "of unknown place", "median wait", "failed",
    "core hours", "no record",
)  # fmt: skip
CRITERIA: dict[Criterion, str] = {
    "days": "days covered",
    "chunks": "chunks",
    "agreement": "agreement, lower bound",
    "queue_share": "queue that differs most",
    "rule_share": "rule that differs most",
    "profile": "profile",
    "fall_backs": "fall-backs of the plug-in",
    "doctor": "problems of doctor",
}
AT_LEAST = frozenset({"days", "chunks", "agreement"})
COUNTED = frozenset({"days", "chunks", "doctor"})
SHARES = ("brokerage", "share", "PanDA's jobs", "part", "ours", "part")


def agreement_sentence(line: AgreementLine, confidence: float) -> str:
    """One brokerage in one sentence."""
    bounds = _within(line.job_interval, confidence)
    sample = f", {line.tasks:,} tasks" if line.tasks else ""
    if line.brokerage == "production_task":
        agreed = _of(line.agreed_jobs, line.compared_jobs)
        return f"{line.brokerage}: {agreed} tasks at a nucleus that ours offers{bounds}"
    return (
        f"{line.brokerage}: {_of(line.agreed_jobs, line.compared_jobs)} jobs at a candidate of ours{bounds}{sample}; "
        f"{_of(line.agreed_chunks, line.chunks)} chunks without a difference; "
        f"{_of(line.agreed_waits, line.waits)} waits of PanDA's with nothing found by ours either"
    )


def window_sentence(shadow: Shadow) -> str:
    """The time that is compared."""
    hours = shadow.max_age_s / 3600
    return f"from {shadow.since:%Y-%m-%d %H:%M} to {shadow.until:%Y-%m-%d %H:%M} UTC, decisions of at most {hours:g} h"


def decider_sentence(one: DecidedBy) -> str:
    """One sentence that names the profile, version and tuning that decided."""
    profile = "a profile that is not on record" if one.profile is None else f"profile {one.profile}"
    waits = f" and {one.waits:,} waits" if one.waits else ""
    return (
        f"{one.brokerage}: decided by {profile}, version {one.engine or 'not on record'}, tuning {one.tuning} "
        f"({one.jobs:,} jobs{waits} compared)"
    )


def chance_sentence(one: ByChance, line: AgreementLine) -> str:
    """The agreement by random draws alone, next to the one measured."""
    measured = "" if line.same_place is None else f"same place {100 * line.same_place:.1f} %; "
    return (
        f"{one.brokerage}: {measured}by chance alone, drawing by the same weights, {100 * one.same_place:.1f} % "
        f"({100 * one.interval.low:.1f} to {100 * one.interval.high:.1f} %); "
        f"two draws by them put {100 * one.drawn_twice:.1f} % at the same places"
    )


def own_sentence(one: PlacedByOurs) -> str:
    """The work placed by ours, which is left out."""
    what = "tasks" if one.brokerage == "production_task" else "jobs"
    waits = f" and {one.waits:,} waits" if one.waits else ""
    return f"{one.brokerage}: {one.jobs:,} {what}{waits} placed by ours ({BY[one.by]}), left out of all other numbers"


def compared_sentences(shadow: Shadow) -> list[str]:
    """All sentences on what was compared, in addition to the tables."""
    lines = {one.brokerage: one for one in shadow.brokerages}
    return [
        *(decider_sentence(one) for one in shadow.decided_by),
        *(agreement_sentence(one, shadow.confidence) for one in shadow.brokerages),
        *(chance_sentence(one, lines[one.brokerage]) for one in shadow.by_chance if one.label is None),
        *(own_sentence(one) for one in shadow.placed_by_ours),
        *(
            f"{one.brokerage}: {one.jobs:,} jobs and {one.waits:,} waits not compared: {UNCOMPARED[one.reason]}"
            for one in shadow.uncompared
        ),
        *(f"note: {one}" for one in shadow.notes),
    ]


def consequence_cells(one: Consequence) -> tuple[str | int, ...]:
    """A row of the table of consequences."""
    return (
        one.brokerage,
        PLACED[one.placed],
        one.queues,
        f"{one.jobs:,.1f}",
        "" if one.wan_bytes is None else size(one.wan_bytes),
        f"{one.wan_unknown_jobs:,.1f}",
        "" if one.waiting_s is None else f"{one.waiting_s / 60:,.0f} min",
        "" if one.failure_rate is None else f"{100 * one.failure_rate:.1f} %",
        "" if one.core_hours is None else f"{one.core_hours:,.0f}",
        f"{one.no_record_jobs:,.1f}",
    )


def share_cells(one: ShareConsequence) -> tuple[str | int, ...]:
    """A row of the table of shares."""
    part = "" if one.our_part is None else f"{100 * one.our_part:.1f} %"
    return one.brokerage, one.share, one.panda_jobs, f"{100 * one.panda_part:.1f} %", f"{one.our_jobs:,.1f}", part


def size(number: float) -> str:
    """Bytes in decimal units."""
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if abs(number) < 1000:
            return f"{number:,.1f} {unit}"
        number /= 1000
    return f"{number:,.1f} PB"


def _within(interval: Interval | None, confidence: float) -> str:
    if interval is None:
        return ""
    return f", {100 * confidence:g} % sure of {100 * interval.low:.1f} to {100 * interval.high:.1f} %"


def _of(part: int, whole: int) -> str:
    share = f" ({100 * part / whole:.1f} %)" if whole else ""
    return f"{part:,} of {whole:,}{share}"


def verdict_sentence(verdict: Gate) -> str:
    """The verdict in one sentence."""
    failed = sum(not one.passed for one in verdict.lines)
    window = f"{verdict.shadow.since:%Y-%m-%d %H:%M} to {verdict.shadow.until:%Y-%m-%d %H:%M} UTC"
    if verdict.passed:
        return f"the gate is open: all {len(verdict.lines)} criteria hold ({window})"
    return f"the gate stays closed: {failed} of {len(verdict.lines)} criteria do not hold ({window})"


def gate_cells(one: GateLine) -> tuple[str, ...]:
    """A row of the table of criteria."""
    return (
        one.brokerage or "",
        "(none)" if one.label == "" else one.label or "",
        CRITERIA[one.criterion],
        "ok" if one.passed else "FAILS",
        _figure(one, one.value),
        ""
        if one.limit is None
        else ("at least " if one.criterion in AT_LEAST else "at most ") + _figure(one, one.limit),
        one.detail,
    )


def _figure(one: GateLine, value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if one.criterion in COUNTED else f"{100 * value:.2f} %"
