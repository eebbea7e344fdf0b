"""Whether the work of PanDA's brokers may be handed over: shadow mode and the plug-in's calls against a gate."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path

from agents.service.configuration import config_file
from broker import resources
from broker.alongside.answers.shadow import ShadowComparison, compare, shadow_of
from broker.alongside.answers.shadow_models import Criterion, DecidedBy, DisagreementLine, Gate, GateLine
from broker.alongside.answers.shadow_tally import Tally
from broker.alongside.model.gate_file import GateFile, GateFileError, Limits, read_gate
from broker.alongside.statements import plugin_calls
from broker.alongside.statements.plugin_calls import CallCount
from broker.brokerages.registry import offered
from broker.errors import NotFound
from broker.fetching.documents import Surroundings
from broker.service.answers.examination import all_findings
from broker.store.connection.database import Database
from broker.store.query_context import QueryContext

DAY = timedelta(days=1)
#: Most items beyond a limit that are named.
MOST_NAMED = 5


def gate_file(path: Path | None, folder: Path | None) -> tuple[GateFile, str]:
    """Read the gate of a file; return it and the file's name.

    Args:
        path: the file; None for ``gate.yaml`` of the configuration.
        folder: with the operator's own configuration files; None for the shipped ones.

    Raises:
        NotFound: there is no such file.
        GateFileError: the file cannot be used.
    """
    file = config_file("gate.yaml", folder) if path is None else path
    known: Mapping[str, Sequence[str]] = {"brokerage": tuple(offered()), "profile": _profiles(folder)}
    try:
        return read_gate(file.read_text(encoding="utf-8"), str(file), known), str(file)
    except FileNotFoundError as error:
        raise NotFound("there is no such file", str(file), "config/gate.yaml is an example") from error
    except (OSError, UnicodeDecodeError) as error:
        raise GateFileError(f"cannot be read: {error}", str(file)) from error


def _profiles(folder: Path | None) -> list[str]:
    places = [resources.path("config/profiles"), *([] if folder is None else [folder / "profiles"])]
    return sorted({file.stem for place in places if place.is_dir() for file in place.glob("*.yaml")})


def doctor_problems(
    database: Database,
    folder: Path | None,
    now: datetime,
    steady_s: Callable[[], float],
    pause: Callable[[float], None],
) -> list[str]:
    """The problems that ``broker doctor`` finds, one line each; for the arguments see ``all_findings``."""
    here = Surroundings(steady_s, lambda: 0.5, pause)
    findings = all_findings(database, folder, now, here)
    return [f"{finding.topic}: {finding.what}" for finding in findings if finding.level == "problem"]


def gate(query: QueryContext, criteria: GateFile, where: str, problems: Sequence[str]) -> Gate:
    """Check the last days, up to the instant of the query, against the criteria.

    Args:
        query: the database and the instant.
        criteria: of the file.
        where: name of the file.
        problems: those that ``broker doctor`` finds.
    """
    since, max_age = query.now - criteria.days * DAY, timedelta(hours=criteria.max_age_h)
    compared = compare(query, since, max_age)
    calls = plugin_calls.since(query.connection, since)
    lines = verdicts(criteria, compared, query, calls, problems)
    return Gate(
        passed=all(one.passed for one in lines),
        where=where,
        gate=criteria,
        lines=lines,
        shadow=shadow_of(query, since, max_age, compared, criteria.confidence),
    )


def verdicts(
    criteria: GateFile,
    compared: ShadowComparison,
    query: QueryContext,
    calls: Sequence[CallCount],
    problems: Sequence[str],
) -> tuple[GateLine, ...]:
    """The verdict on each criterion, in the order of the gate."""
    lines: list[GateLine] = []
    deciders = compared.deciders.lines()
    for brokerage, own in criteria.brokerages.items():
        limits = own.limits
        seen = [name for name, tally in sorted(compared.by_label.items()) if brokerage in tally.all]
        labels: Iterable[str] = own.labels or seen
        for label in labels:
            tally = compared.by_label.get(label, Tally())
            lines += _of_label(criteria, limits, _Subject(brokerage, label, tally), query)
        if not labels:
            lines.append(_Subject(brokerage, None, Tally()).line("chunks", 0, limits.chunks, False, "nothing compared"))
        lines += _profile(criteria, brokerage, deciders)
        lines.append(fall_backs(brokerage, limits, calls))
    if criteria.doctor == "clean":
        detail = _named(list(problems)) if problems else "no problem"
        whole = _Subject(None, None, Tally())
        lines.append(whole.line("doctor", len(problems), 0, not problems, detail))
    return tuple(lines)


class _Subject:
    """The subject of a line, with its counts."""

    def __init__(self, brokerage: str | None, label: str | None, tally: Tally) -> None:
        self.brokerage, self.label, self.tally = brokerage, label, tally

    def line(
        self, criterion: Criterion, value: float | None, limit: float | None, passed: bool, detail: str
    ) -> GateLine:
        return GateLine(
            brokerage=self.brokerage,
            label=self.label,
            criterion=criterion,
            passed=passed,
            value=value,
            limit=limit,
            detail=detail,
        )


def _of_label(criteria: GateFile, limits: Limits, subject: _Subject, query: QueryContext) -> list[GateLine]:
    name, tally = subject.brokerage or "", subject.tally
    known = {line.brokerage: line for line in tally.brokerages(criteria.confidence)}.get(name)
    # an hour that began before the first day belongs to it
    days = {min(int((query.now - moment) / DAY), criteria.days - 1) for moment in tally.moments(name)}
    chunks = 0 if known is None else known.chunks
    low = None if known is None or known.job_interval is None else known.job_interval.low
    if known is None or low is None:
        agreed = "no jobs were compared"
    else:
        agreed = f"{known.agreed_jobs:,} of {known.compared_jobs:,} jobs of {known.tasks:,} tasks"
    return [
        subject.line("days", len(days), criteria.days, len(days) >= criteria.days, "days with something compared"),
        subject.line("chunks", chunks, limits.chunks, chunks >= limits.chunks, "chunks and waits compared"),
        subject.line("agreement", low, limits.agreement, low is not None and low >= limits.agreement, agreed),
        _queues(criteria, limits, subject),
        _rules(criteria, limits, subject),
    ]


def _queues(criteria: GateFile, limits: Limits, subject: _Subject) -> GateLine:
    """The line on the queue that deviates most beyond chance, up or down."""
    name = subject.brokerage or ""
    lines = [line for line in subject.tally.queues() if line.brokerage == name]
    total = sum(line.panda_jobs for line in lines)
    if not total:
        return subject.line("queue_share", None, limits.queue_share, False, "no jobs were compared")
    off = {line.queue: max(0.0, abs(line.our_jobs - line.panda_jobs) - line.by_chance) / total for line in lines}
    rest = {queue: share for queue, share in off.items() if not criteria.explains_queue(name, queue)}
    beyond = {queue: share for queue, share in rest.items() if share > limits.queue_share}
    detail = _named_parts(beyond, len(off) - len(rest))
    return subject.line("queue_share", max(rest.values(), default=0.0), limits.queue_share, not beyond, detail)


def _rules(criteria: GateFile, limits: Limits, subject: _Subject) -> GateLine:
    """The line on the rule that makes the most differences, in jobs or in waits."""
    name = subject.brokerage or ""
    counts = subject.tally.all.get(name)
    if counts is None or not counts.compared + counts.waits:
        return subject.line("rule_share", None, limits.rule_share, False, "nothing was compared")

    def part(one: DisagreementLine) -> float:
        jobs = one.jobs / counts.compared if counts.compared else 0.0
        waits = one.waits / counts.waits if counts.waits else 0.0
        return jobs if one.side == "panda_only" else waits

    lines = [one for one in subject.tally.disagreements() if one.brokerage == name]
    off = {f"{one.code} ({one.side})": part(one) for one in lines if not criteria.explains_rule(name, one.code)}
    beyond = {code: share for code, share in off.items() if share > limits.rule_share}
    detail = _named_parts(beyond, len(lines) - len(off))
    return subject.line("rule_share", max(off.values(), default=0.0), limits.rule_share, not beyond, detail)


def _profile(criteria: GateFile, brokerage: str, deciders: Sequence[DecidedBy]) -> list[GateLine]:
    """The line on whether the profile to be judged decided everything that was compared."""
    if criteria.profile is None:
        return []
    lines = [line for line in deciders if line.brokerage == brokerage]
    others = sorted({line.profile or "not on record" for line in lines if line.profile != criteria.profile})
    detail = f"decided by {', '.join(others)}" if others else f"decided by {criteria.profile}"
    passed = bool(lines) and not others
    subject = _Subject(brokerage, None, Tally())
    return [subject.line("profile", None, None, passed, detail if lines else "nothing was compared")]


def fall_backs(brokerage: str, limits: Limits, calls: Sequence[CallCount]) -> GateLine:
    """The line on calls that the plug-in should have decided but did not; the switch leaves other calls to PanDA."""
    outcomes = ("decided", *plugin_calls.FALLEN_BACK)
    counts = [count for count in calls if count.call.brokerage == brokerage and count.call.outcome in outcomes]
    total, subject = sum(count.calls for count in counts), _Subject(brokerage, None, Tally())
    if not total:
        return subject.line("fall_backs", None, limits.fall_backs, True, "the plug-in was not called")
    lost: dict[str, float] = {}
    for count in counts:
        if count.call.outcome in plugin_calls.FALLEN_BACK:
            reason = f"{count.call.outcome}: {count.call.reason}"
            lost[reason] = lost.get(reason, 0.0) + count.calls / total
    share = sum(lost.values())
    return subject.line("fall_backs", share, limits.fall_backs, share <= limits.fall_backs, _named_parts(lost, 0))


def _named_parts(parts: dict[str, float], explained: int) -> str:
    most = sorted(parts.items(), key=lambda one: (-one[1], one[0]))
    words = [_named([f"{name} {100 * part:.1f} %" for name, part in most])] if most else []
    words += [f"{explained} explained"] if explained else []
    return "; ".join(words)


def _named(words: Sequence[str]) -> str:
    rest = f", and {len(words) - MOST_NAMED} more" if len(words) > MOST_NAMED else ""
    return ", ".join(words[:MOST_NAMED]) + rest
