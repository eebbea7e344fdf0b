"""What somebody should look at: stale sources, agents that do not work, tasks that starve, failing queues."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import numpy as np

from broker.domain.parts import MARK
from broker.domain.queue_health import HealthLimits
from broker.flow.answers.quality import WorseCycles, worse_cycles, worse_sentence
from broker.history.answers.stored_states import Brokered, ChunkState, changes_since, waiting_long
from broker.history.statements.task_facts import read_task_shares
from broker.notifications.answers.messages import Standing, fails, standings
from broker.outcomes.answers.outcomes import PlaceHealth, held_nodes, unhealthy
from broker.service.answers.acknowledging import GRAVITY, marked
from broker.service.answers.alarm_limits import AlarmLimits as AlarmLimits, load_limits as load_limits
from broker.service.answers.models import AgentLine, Alarm, Alarms, SourceLine
from broker.service.answers.service import agent_lines, agents_clock, source_lines
from broker.service.statements.agent_cycles import EndedCycle, last_ended
from broker.service.statements.metric_reads import EndedJobs, ended_jobs
from broker.store.query_context import Asking
from broker.store.service import acknowledged_alarms
from broker.store.service.agent_pauses import BRAKE
from broker.store.summaries.chunk_states import Change
from broker.tasks.answers.outputs import OutputDataset, waiting_outputs


@dataclass(frozen=True)
class QueueOutcomes:
    """Jobs that ended at a queue lately: ``is_failing`` when many of many tasks failed."""

    queue: str
    failed: int
    finished: int
    tasks_failed: int
    since: datetime | None
    is_failing: bool

    @property
    def failed_percent(self) -> float:
        """Of all jobs that ended."""
        return 100.0 * self.failed / max(1, self.failed + self.finished)


def failing_queues(asking: Asking, limits: AlarmLimits | None = None) -> dict[str, QueueOutcomes]:
    """The queues at which jobs ended within the time that is looked at, by name."""
    used = limits or AlarmLimits()
    since = asking.now - timedelta(hours=used.failing_hours)
    ended = ended_jobs(asking.connection, asking.catalogue, since, asking.now)
    return {one.queue: one for one in outcomes_of(ended, used)}


def outcomes_of(ended: Iterable[EndedJobs], limits: AlarmLimits) -> list[QueueOutcomes]:
    """Which queues fail: enough failed jobs, of enough tasks, and a large enough part of all that ended. Pure."""
    found = []
    for one in ended:
        percent = 100.0 * one.failed / max(1, one.failed + one.finished)
        many = one.failed >= limits.failing_jobs and one.tasks_failed >= limits.failing_tasks
        found.append(
            QueueOutcomes(
                one.queue,
                one.failed,
                one.finished,
                one.tasks_failed,
                one.first_failed,
                many and percent >= limits.failing_percent,
            )
        )
    return found


NODES_NAMED = 5
FAILED = ("failed", "overdue", "failed_transient", "over_budget")
USABLE = ("ok", "shrunk")


def alarms(asking: Asking, limits: AlarmLimits | None = None) -> Alarms:
    """All alarms: those at which nobody looks yet, the gravest first, then those that last longest."""
    used = limits or load_limits(asking.config)
    late, brokered = waiting_long(asking, asking.now - timedelta(hours=used.starving_hours))
    tasks = sorted({one.jeditaskid for one in late} | {task for _, task, _ in brokered})
    in_share = read_task_shares(asking.connection, asking.catalogue, tasks)
    since = asking.now - timedelta(hours=used.flapping_hours)
    ended = last_ended(asking.connection, agents_clock(asking), used.refused_cycles)
    found = [
        *stale_sources(source_lines(asking)),
        *agent_alarms(agent_lines(asking), ended, used),
        *starving(late, brokered, in_share, used, asking.now),
        *flapping(changes_since(asking, since, used.flapping_changes), used),
        *failing(failing_queues(asking, used).values(), used),
        *closed(unhealthy(asking)),
        *held(held_nodes(asking)),
        *notification_alarms(standings(asking)),
        *worse_alarms(worse_cycles(asking, used.drift)),
        *outputs_alarms(waiting_outputs(asking.connection), used, asking.now),
    ]
    found = marked(found, acknowledged_alarms.held(asking.connection))
    found.sort(
        key=lambda one: (
            one.acknowledged is not None, GRAVITY[one.severity], one.code, one.since or asking.now, one.about
        )
    )  # fmt: skip
    return Alarms(now=asking.now, alarms=tuple(found))


def stale_sources(sources: Iterable[SourceLine]) -> Iterator[Alarm]:
    """Sources by which no rule can judge, or of which the last good reading stands in. Pure."""
    for one in sources:
        if one.state != "ok":
            yield Alarm(
                code="source_stale",
                severity="warning" if one.state in USABLE else "critical",
                about=one.source,
                value=one.age_s,
                limit=one.limit_s,
                unit="s",
                key="config/sources.yaml",
                details={"state": one.state, "rows": one.rows},
            )


def agent_alarms(agents: Sequence[AgentLine], ended: Iterable[EndedCycle], limits: AlarmLimits) -> Iterator[Alarm]:
    """Agents that are overdue, fail, refuse, have no leader, or are paused. Pure."""
    last: defaultdict[tuple[str, str | None], list[EndedCycle]] = defaultdict(list)
    for cycle in ended:
        last[cycle.agent, cycle.part].append(cycle)
    led = any(one.holder for one in agents)
    for one in agents:
        if one.pause is not None:
            severity = "critical" if one.pause.editor == BRAKE else "info"
            yield _agent(one, "agent_paused", severity, one.pause.set_at, reason=one.pause.reason, by=one.pause.editor)
            continue
        if one.last_outcome == "overdue":
            yield _agent(one, "agent_overdue", "critical", one.started_at)
        if one.enabled and led and one.holder is None and one.started_at is not None:
            yield _agent(one, "no_leader", "critical", one.started_at)
        for part in one.parts:
            if one.enabled and one.holder is not None and part.holder is None:
                yield _agent(one, "no_leader", "critical", part.started_at, part=part.part)
            yield from _in_a_row(_name(one, part.part), last[one.agent, part.part], limits)
        if not one.parts:
            yield from _in_a_row(one.agent, last[one.agent, None], limits)


def _name(agent: AgentLine, part: str | None) -> str:
    return agent.agent if part is None else f"{agent.agent}{MARK}{part}"


def _in_a_row(about: str, ended: Sequence[EndedCycle], limits: AlarmLimits) -> Iterator[Alarm]:
    some = ended[: limits.refused_cycles]
    if len(some) < limits.refused_cycles:
        return
    error = (some[0].error or "").strip().splitlines()
    details = {"error": error[-1][:200] if error else None}
    for code, outcomes in (("agent_refused", ("refused",)), ("agent_failing", FAILED)):
        if all(one.outcome in outcomes for one in some):
            yield Alarm(
                code="agent_refused" if code == "agent_refused" else "agent_failing",
                severity="critical",
                about=about,
                value=len(some),
                limit=limits.refused_cycles,
                unit="cycles",
                key="alarms.refused_cycles",
                since=some[-1].started_at,
                details=dict(details),
            )


def _agent(
    agent: AgentLine, code: Any, severity: Any, since: datetime | None, part: str | None = None, **details: str
) -> Alarm:
    return Alarm(
        code=code,
        severity=severity,
        about=_name(agent, part),
        value=agent.age_s,
        limit=agent.period_s,
        unit="s",
        key=f"agents.{agent.agent}.period_s",
        since=since,
        details=dict(details),
    )


def starving(
    waiting: Sequence[ChunkState],
    brokered: Iterable[Brokered],
    in_share: Mapping[int, str | None],
    limits: AlarmLimits,
    now: datetime,
) -> Iterator[Alarm]:
    """Tasks that wait for longer than the limit, while tasks that came later in the same share were brokered. Pure."""
    last: dict[tuple[str, int], datetime] = {}
    for brokerage, task, at in brokered:
        last[brokerage, task] = max(at, last.get((brokerage, task), at))
    by_share: defaultdict[tuple[str, str | None], list[tuple[int, float]]] = defaultdict(list)
    for (brokerage, task), at in last.items():
        by_share[brokerage, in_share.get(task)].append((task, at.timestamp()))
    arrays = {key: np.array(found, dtype=np.float64) for key, found in by_share.items()}
    seen: set[int] = set()
    for state in sorted(waiting, key=lambda one: one.waiting_since or now):
        since, share = state.waiting_since, in_share.get(state.jeditaskid)
        others = arrays.get((state.brokerage, share))
        if since is None or others is None or state.jeditaskid in seen:
            continue
        hours = (now - since).total_seconds() / 3600.0
        later = int(np.count_nonzero((others[:, 0] > state.jeditaskid) & (others[:, 1] >= since.timestamp())))
        if hours > limits.starving_hours and later:
            seen.add(state.jeditaskid)
            yield Alarm(
                code="task_starving",
                severity="warning",
                about=str(state.jeditaskid),
                value=round(hours, 2),
                limit=limits.starving_hours,
                unit="h",
                key="alarms.starving_hours",
                since=since,
                details={"reason": state.main_code, "gshare": share, "later_tasks_brokered": later},
            )


def flapping(changes: Iterable[Change], limits: AlarmLimits) -> Iterator[Alarm]:
    """Tasks with a chunk whose outcome or reason keeps changing. Pure."""
    for one in changes:
        if one.changes >= limits.flapping_changes:
            yield Alarm(
                code="task_flapping",
                severity="warning",
                about=str(one.jeditaskid),
                value=one.changes,
                limit=limits.flapping_changes,
                unit="changes",
                key="alarms.flapping_changes",
                since=one.first_at,
                details={"brokerage": one.brokerage, "datasetid": one.datasetid, "hours": limits.flapping_hours},
            )


def failing(queues: Iterable[QueueOutcomes], limits: AlarmLimits) -> Iterator[Alarm]:
    """Queues at which jobs of many tasks fail. Pure."""
    for one in queues:
        if one.is_failing:
            yield Alarm(
                code="queue_failing",
                severity="warning",
                about=one.queue,
                value=round(one.failed_percent, 1),
                limit=limits.failing_percent,
                unit="%",
                key="alarms.failing_percent",
                since=one.since,
                details={"failed": one.failed, "finished": one.finished, "tasks": one.tasks_failed},
            )


def closed(places: Iterable[PlaceHealth]) -> Iterator[Alarm]:
    """Queues that get no jobs, or probe jobs only, for how jobs end there. Pure."""
    for one in places:
        if one.state in ("excluded", "probation") and not one.node:
            yield Alarm(
                code="queue_closed",
                severity="warning",
                about=one.queue,
                value=one.statistic,
                limit=HealthLimits().evidence,
                unit="ln",
                key="LEARNED_FAILING_QUEUES",
                since=one.changed,
                details={"kind": one.kind, "state": one.state, "what": one.sentence},
            )


def held(nodes: Mapping[str, Sequence[str]]) -> Iterator[Alarm]:
    """Queues with nodes whose pilots are given no jobs, the first named. Pure."""
    for queue, some in nodes.items():
        yield Alarm(
            code="nodes_held",
            severity="info",
            about=queue,
            value=len(some),
            limit=0,
            unit="nodes",
            key="LEARNED_AVOID_NODES",
            details={"what": "; ".join(some[:NODES_NAMED])},
        )


def notification_alarms(channels: Iterable[Standing]) -> Iterator[Alarm]:
    """Channels by which messages do not get through. Pure."""
    for one in channels:
        if fails(one):
            yield Alarm(
                code="notifications_failing",
                severity="warning",
                about=one.channel,
                value=one.failing + one.given_up,
                limit=0,
                unit="messages",
                key="config/notifications.yaml",
                since=one.failing_since,
                details={"tries": one.tries, "given_up": one.given_up, "detail": one.detail},
            )


def worse_alarms(found: Iterable[WorseCycles]) -> Iterator[Alarm]:
    """Brokerages whose cycles got worse. Pure."""
    for one in found:
        yield Alarm(
            code="decisions_worse",
            severity="warning",
            about=one.brokerage,
            value=one.value,
            limit=one.limit,
            unit="%",
            key="alarms.regret_percent" if one.figure == "cost" else "alarms.regret_bytes_percent",
            since=one.since,
            details={"figure": one.figure, "usual": one.usual, "cycles": one.cycles, "what": worse_sentence(one)},
        )


def outputs_alarms(datasets: Sequence[OutputDataset], limits: AlarmLimits, now: datetime) -> Iterator[Alarm]:
    """Outputs that wait for Rucio for too long, that it does not have, and datasets that cannot be closed. Pure."""
    waiting = [one for one in datasets if one.oldest_queued is not None]
    oldest = min((one.oldest_queued for one in waiting if one.oldest_queued is not None), default=None)
    hours = 0.0 if oldest is None else (now - oldest).total_seconds() / 3600.0
    if hours > limits.outputs_waiting_hours:
        reason = next((one.reason for one in waiting if one.reason), "the agent rucio_output has not come to it")
        files = sum(one.queued for one in waiting)
        yield Alarm(
            code="outputs_waiting",
            severity="warning",
            about="rucio_output",
            value=round(hours, 2),
            limit=limits.outputs_waiting_hours,
            unit="h",
            key="alarms.outputs_waiting_hours",
            since=oldest,
            details={"files": files, "datasets": len(waiting), "reason": reason},
        )
    for one in datasets:
        if one.refused:
            yield _output(one, "output_refused", one.refused, 0, "files", one.first_refused)
        elif one.failures and not one.queued:
            yield _output(one, "output_dataset_open", one.failures, 0, "tries", one.reason)


def _output(dataset: OutputDataset, code: Any, value: int, limit: int, unit: str, reason: str | None) -> Alarm:
    details: dict[str, Any] = {
        "jeditaskid": dataset.jeditaskid,
        "reason": reason,
        "next_try": str(dataset.next_try or ""),
    }
    return Alarm(
        code=code,
        severity="warning",
        about=dataset.dataset,
        value=value,
        limit=limit,
        unit=unit,
        key="broker outputs",
        since=dataset.oldest_queued,
        details=details,
    )
