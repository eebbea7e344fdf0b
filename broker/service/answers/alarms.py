"""Alarms as an answer: stale sources, agents that do not work, starving tasks, failing queues."""

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
from broker.notifications.answers.messages import ChannelState, channel_states, fails
from broker.outcomes.answers.outcomes import PlaceHealth, held_nodes, unhealthy
from broker.service.answers.acknowledging import GRAVITY, marked
from broker.service.answers.alarm_limits import AlarmLimits as AlarmLimits, load_limits as load_limits
from broker.service.answers.models import AgentLine, Alarm, Alarms, SourceLine
from broker.service.answers.service import agent_lines, agents_clock, source_lines
from broker.service.statements.agent_cycles import EndedCycle, last_ended
from broker.service.statements.metric_reads import EndedJobs, ended_jobs
from broker.store.query_context import QueryContext
from broker.store.service import acknowledged_alarms
from broker.store.service.agent_pauses import BRAKE
from broker.store.summaries.chunk_states import Change
from broker.tasks.answers.outputs import OutputDataset, waiting_outputs


@dataclass(frozen=True)
class QueueOutcomes:
    """Jobs that ended at a queue recently; ``is_failing`` if many jobs of many tasks failed."""

    queue: str
    failed: int
    finished: int
    tasks_failed: int
    since: datetime | None
    is_failing: bool

    @property
    def failed_percent(self) -> float:
        """Failed jobs in per cent of all that ended."""
        return 100.0 * self.failed / max(1, self.failed + self.finished)


def failing_queues(query: QueryContext, limits: AlarmLimits | None = None) -> dict[str, QueueOutcomes]:
    """Return the queues at which jobs ended within the configured time, by name."""
    effective = limits or AlarmLimits()
    since = query.now - timedelta(hours=effective.failing_hours)
    ended = ended_jobs(query.connection, query.catalogue, since, query.now)
    return {outcome.queue: outcome for outcome in outcomes_of(ended, effective)}


def outcomes_of(ended: Iterable[EndedJobs], limits: AlarmLimits) -> list[QueueOutcomes]:
    """Judge which queues fail: enough failed jobs, of enough tasks, and a large enough part of all that ended. Pure."""
    result = []
    for queue in ended:
        percent = 100.0 * queue.failed / max(1, queue.failed + queue.finished)
        many = queue.failed >= limits.failing_jobs and queue.tasks_failed >= limits.failing_tasks
        result.append(
            QueueOutcomes(
                queue.queue,
                queue.failed,
                queue.finished,
                queue.tasks_failed,
                queue.first_failed,
                many and percent >= limits.failing_percent,
            )
        )
    return result


NODES_NAMED = 5
FAILED = ("failed", "overdue", "failed_transient", "over_budget")
USABLE = ("ok", "shrunk")


def alarms(query: QueryContext, limits: AlarmLimits | None = None) -> Alarms:
    """Return all alarms: unacknowledged ones first, the gravest first, then those that have lasted longest."""
    effective = limits or load_limits(query.config)
    late, brokered = waiting_long(query, query.now - timedelta(hours=effective.starving_hours))
    tasks = sorted({state.jeditaskid for state in late} | {task for _, task, _ in brokered})
    in_share = read_task_shares(query.connection, query.catalogue, tasks)
    since = query.now - timedelta(hours=effective.flapping_hours)
    ended = last_ended(query.connection, agents_clock(query), effective.refused_cycles)
    all_alarms = [
        *stale_sources(source_lines(query)),
        *agent_alarms(agent_lines(query), ended, effective),
        *starving(late, brokered, in_share, effective, query.now),
        *flapping(changes_since(query, since, effective.flapping_changes), effective),
        *failing(failing_queues(query, effective).values(), effective),
        *closed(unhealthy(query)),
        *held(held_nodes(query)),
        *notification_alarms(channel_states(query)),
        *worse_alarms(worse_cycles(query, effective.drift)),
        *outputs_alarms(waiting_outputs(query.connection), effective, query.now),
    ]
    all_alarms = marked(all_alarms, acknowledged_alarms.held(query.connection))
    all_alarms.sort(
        key=lambda alarm: (
            alarm.acknowledged is not None, GRAVITY[alarm.severity], alarm.code, alarm.since or query.now, alarm.about
        )
    )  # fmt: skip
    return Alarms(now=query.now, alarms=tuple(all_alarms))


def stale_sources(sources: Iterable[SourceLine]) -> Iterator[Alarm]:
    """Yield sources that no rule can use, or whose last good reading is used instead. Pure."""
    for source in sources:
        if source.state != "ok":
            yield Alarm(
                code="source_stale",
                severity="warning" if source.state in USABLE else "critical",
                about=source.source,
                value=source.age_s,
                limit=source.limit_s,
                unit="s",
                key="config/sources.yaml",
                details={"state": source.state, "rows": source.rows},
            )


def agent_alarms(agents: Sequence[AgentLine], ended: Iterable[EndedCycle], limits: AlarmLimits) -> Iterator[Alarm]:
    """Yield agents that are overdue, fail, refuse, have no leader, or are paused. Pure."""
    last: defaultdict[tuple[str, str | None], list[EndedCycle]] = defaultdict(list)
    for cycle in ended:
        last[cycle.agent, cycle.part].append(cycle)
    led = any(agent.holder for agent in agents)
    for agent in agents:
        if agent.pause is not None:
            severity = "critical" if agent.pause.editor == BRAKE else "info"
            yield _agent(
                agent, "agent_paused", severity, agent.pause.set_at, reason=agent.pause.reason, by=agent.pause.editor
            )
            continue
        if agent.last_outcome == "overdue":
            yield _agent(agent, "agent_overdue", "critical", agent.started_at)
        if agent.enabled and led and agent.holder is None and agent.started_at is not None:
            yield _agent(agent, "no_leader", "critical", agent.started_at)
        for part in agent.parts:
            if agent.enabled and agent.holder is not None and part.holder is None:
                yield _agent(agent, "no_leader", "critical", part.started_at, part=part.part)
            yield from _in_a_row(_name(agent, part.part), last[agent.agent, part.part], limits)
        if not agent.parts:
            yield from _in_a_row(agent.agent, last[agent.agent, None], limits)


def _name(agent: AgentLine, part: str | None) -> str:
    return agent.agent if part is None else f"{agent.agent}{MARK}{part}"


def _in_a_row(about: str, ended: Sequence[EndedCycle], limits: AlarmLimits) -> Iterator[Alarm]:
    recent = ended[: limits.refused_cycles]
    if len(recent) < limits.refused_cycles:
        return
    error = (recent[0].error or "").strip().splitlines()
    details = {"error": error[-1][:200] if error else None}
    for code, outcomes in (("agent_refused", ("refused",)), ("agent_failing", FAILED)):
        if all(cycle.outcome in outcomes for cycle in recent):
            yield Alarm(
                code="agent_refused" if code == "agent_refused" else "agent_failing",
                severity="critical",
                about=about,
                value=len(recent),
                limit=limits.refused_cycles,
                unit="cycles",
                key="alarms.refused_cycles",
                since=recent[-1].started_at,
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
    """Yield tasks that wait beyond the limit while later tasks of the same share were brokered. Pure."""
    last: dict[tuple[str, int], datetime] = {}
    for brokerage, task, at in brokered:
        last[brokerage, task] = max(at, last.get((brokerage, task), at))
    by_share: defaultdict[tuple[str, str | None], list[tuple[int, float]]] = defaultdict(list)
    for (brokerage, task), at in last.items():
        by_share[brokerage, in_share.get(task)].append((task, at.timestamp()))
    arrays = {key: np.array(instants, dtype=np.float64) for key, instants in by_share.items()}
    tasks: set[int] = set()
    for state in sorted(waiting, key=lambda waiting_state: waiting_state.waiting_since or now):
        since, share = state.waiting_since, in_share.get(state.jeditaskid)
        brokered_at = arrays.get((state.brokerage, share))
        if since is None or brokered_at is None or state.jeditaskid in tasks:
            continue
        hours = (now - since).total_seconds() / 3600.0
        later = int(np.count_nonzero((brokered_at[:, 0] > state.jeditaskid) & (brokered_at[:, 1] >= since.timestamp())))
        if hours > limits.starving_hours and later:
            tasks.add(state.jeditaskid)
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
    """Yield tasks with a chunk whose outcome or reason keeps changing. Pure."""
    for change in changes:
        if change.changes >= limits.flapping_changes:
            yield Alarm(
                code="task_flapping",
                severity="warning",
                about=str(change.jeditaskid),
                value=change.changes,
                limit=limits.flapping_changes,
                unit="changes",
                key="alarms.flapping_changes",
                since=change.first_at,
                details={"brokerage": change.brokerage, "datasetid": change.datasetid, "hours": limits.flapping_hours},
            )


def failing(queues: Iterable[QueueOutcomes], limits: AlarmLimits) -> Iterator[Alarm]:
    """Yield queues at which jobs of many tasks fail. Pure."""
    for queue in queues:
        if queue.is_failing:
            yield Alarm(
                code="queue_failing",
                severity="warning",
                about=queue.queue,
                value=round(queue.failed_percent, 1),
                limit=limits.failing_percent,
                unit="%",
                key="alarms.failing_percent",
                since=queue.since,
                details={"failed": queue.failed, "finished": queue.finished, "tasks": queue.tasks_failed},
            )


def closed(places: Iterable[PlaceHealth]) -> Iterator[Alarm]:
    """Yield queues that get no jobs, or probe jobs only, because of how jobs end there. Pure."""
    for place in places:
        if place.state in ("excluded", "probation") and not place.node:
            yield Alarm(
                code="queue_closed",
                severity="warning",
                about=place.queue,
                value=place.statistic,
                limit=HealthLimits().evidence,
                unit="ln",
                key="LEARNED_FAILING_QUEUES",
                since=place.changed,
                details={"kind": place.kind, "state": place.state, "what": place.sentence},
            )


def held(nodes: Mapping[str, Sequence[str]]) -> Iterator[Alarm]:
    """Yield queues with nodes whose pilots get no jobs, the first one named. Pure."""
    for queue, node_names in nodes.items():
        yield Alarm(
            code="nodes_held",
            severity="info",
            about=queue,
            value=len(node_names),
            limit=0,
            unit="nodes",
            key="LEARNED_AVOID_NODES",
            details={"what": "; ".join(node_names[:NODES_NAMED])},
        )


def notification_alarms(channels: Iterable[ChannelState]) -> Iterator[Alarm]:
    """Yield channels whose messages do not get through. Pure."""
    for channel in channels:
        if fails(channel):
            yield Alarm(
                code="notifications_failing",
                severity="warning",
                about=channel.channel,
                value=channel.failing + channel.given_up,
                limit=0,
                unit="messages",
                key="config/notifications.yaml",
                since=channel.failing_since,
                details={"tries": channel.tries, "given_up": channel.given_up, "detail": channel.detail},
            )


def worse_alarms(cycles: Iterable[WorseCycles]) -> Iterator[Alarm]:
    """Yield brokerages whose cycles got worse. Pure."""
    for worse in cycles:
        yield Alarm(
            code="decisions_worse",
            severity="warning",
            about=worse.brokerage,
            value=worse.value,
            limit=worse.limit,
            unit="%",
            key="alarms.regret_percent" if worse.figure == "cost" else "alarms.regret_bytes_percent",
            since=worse.since,
            details={
                "figure": worse.figure,
                "usual": worse.usual,
                "cycles": worse.cycles,
                "what": worse_sentence(worse),
            },
        )


def outputs_alarms(datasets: Sequence[OutputDataset], limits: AlarmLimits, now: datetime) -> Iterator[Alarm]:
    """Yield outputs that have waited too long for Rucio, outputs it lacks, and datasets that cannot be closed. Pure."""
    waiting = [dataset for dataset in datasets if dataset.oldest_queued is not None]
    oldest = min((dataset.oldest_queued for dataset in waiting if dataset.oldest_queued is not None), default=None)
    hours = 0.0 if oldest is None else (now - oldest).total_seconds() / 3600.0
    if hours > limits.outputs_waiting_hours:
        reason = next(
            (dataset.reason for dataset in waiting if dataset.reason), "the agent rucio_output has not come to it"
        )
        files = sum(dataset.queued for dataset in waiting)
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
    for dataset in datasets:
        if dataset.refused:
            yield _output(dataset, "output_refused", dataset.refused, 0, "files", dataset.first_refused)
        elif dataset.failures and not dataset.queued:
            yield _output(dataset, "output_dataset_open", dataset.failures, 0, "tries", dataset.reason)


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
