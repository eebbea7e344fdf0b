"""Why a queue gets the jobs that it gets, and not more: as an answer, and in sentences.

The answer sets the limits of the queue against the requests of the chunks of the last day, and names the fields that
operators hold.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np

from broker.brokerages.job.brokerage import JobBrokerage
from broker.brokerages.registry import brokerage as brokerage_of
from broker.decisions.answers.phrases import comparison
from broker.decisions.answers.rules_in_force import brokerages_in_force, rules_in_force
from broker.decisions.answers.stored_chunks import Group, groups_of
from broker.domain.decisions import Observation
from broker.domain.rejection_counts import QueueCount, unified_of
from broker.domain.words import day_and_moment, many, with_unit
from broker.feeds.statements.feed_runs import changes_of_queue
from broker.feeds.statements.queue_pins import PinLine, held_pins, pins_of_queue
from broker.grid.answers.grid import (
    DayCount,
    day_counts,
    decisions_of_the_day,
    figure,
    job_numbers,
    last_snapshot,
    link_lines,
    totals_about,
    tuning_in_force,
)
from broker.grid.answers.misses_at_queue import misses_at_queue
from broker.grid.answers.models import (
    BrokerageAtQueue,
    LinkLine,
    NearMiss,
    NotACandidate,
    QueueAnswer,
    RejectedThere,
    RequestLimit,
)
from broker.history.answers.stored_states import MOST_READ, ChunkState, LastStates, last_states, looked_at, rejected_at
from broker.outcomes.answers.outcomes import PlaceHealth, unhealthy
from broker.rules.contract import Filter
from broker.service.answers.alarms import failing_queues
from broker.snapshot.snapshot import Snapshot
from broker.store.query_context import (
    Evaluation,
    NothingFound,
    Proceed,
    QueryContext,
    ResponseModel,
    known_name,
    proceed,
)

#: Maximum number of chunks, the newest of each brokerage, that stand for all.
MOST_CHUNKS = 30
RuleObservation = tuple[str, Observation]


def request_limits(
    query: QueryContext, snapshot: Snapshot, queue: str, states: Sequence[ChunkState]
) -> Evaluation[tuple[RequestLimit, ...]]:
    """Each limit of a queue's pseudo-queues, with how many chunks request more (or less than a minimum).

    Reads the chunks here; the returned function evaluates them.
    """
    names = [str(one) for one in snapshot.queues.name[snapshot.queues.unified_name == queue]]
    groups: list[Group] = []
    for brokerage in sorted({state.brokerage for state in states}):
        kind = brokerage_of(brokerage)
        if isinstance(kind, JobBrokerage):
            newest = sorted((one for one in states if one.brokerage == brokerage), key=lambda one: -one.decision)
            rules = rules_in_force(brokerage, query.config)
            decisions = [state.decision for state in newest[:MOST_CHUNKS]]
            groups += groups_of(query, kind, rules, decisions)
    return lambda proceed: _limits(groups, names, proceed)


def _limits(groups: Sequence[Group], names: Sequence[str], proceed: Proceed) -> tuple[RequestLimit, ...]:
    by_limit: defaultdict[tuple[str, str], list[Observation]] = defaultdict(list)
    for group in groups:
        for name, seen in _limit_observations(group, names, proceed):
            by_limit[name, seen.key].append(seen)
    return tuple(_request_limit(name, key, observations) for (name, key), observations in sorted(by_limit.items()))


def _limit_observations(group: Group, names: Sequence[str], proceed: Proceed) -> Iterator[RuleObservation]:
    """Observations of the rules on queue limits: each chunk at the pseudo-queues that have its requested cores."""
    cycle = group.cycle(group.snapshot)
    queues = group.snapshot.queues
    rules = [rule for rule in cycle.chain.filters if isinstance(rule, Filter) and rule.reason.limit]
    for result in cycle.results():
        proceed()
        requested_cores = np.nan_to_num(cycle.work.chunks.corecount[result.row])
        for position in np.flatnonzero(np.isin(queues.name, names)).tolist():
            if (requested_cores > 1) != (queues.cores[position] > 1):
                continue
            positions = np.array([position])
            for rule, pairs in zip(rules, cycle.pairs_for(result, rules, positions), strict=True):
                seen = rule.observe(pairs)
                if seen.key == rule.reason.limit and _is_number(seen.value) and _is_number(seen.limit):
                    yield str(queues.name[position]), seen


def _request_limit(name: str, key: str, observations: Sequence[Observation]) -> RequestLimit:
    values = [float(seen.value or 0) for seen in observations]
    limit = float(observations[0].limit or 0)
    beyond = sum(not _holds(float(seen.value or 0), seen.operator, float(seen.limit or 0)) for seen in observations)
    return RequestLimit(
        field=key,
        pseudo_queue=name,
        limit=limit,
        unit=observations[0].unit,
        chunks=len(observations),
        chunks_beyond=beyond,
        median=statistics.median(values),
        largest=max(values),
    )


def _holds(value: float, operator: str, limit: float) -> bool:
    return {"<": value < limit, "<=": value <= limit, ">": value > limit, ">=": value >= limit}.get(operator, True)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


SUCH_AS = 5
MOST_CHANGES = 200
ONLINE = "online"


def queue_answer(query: QueryContext, name: str, *, evaluate: bool = True) -> QueueAnswer:
    """What the queue got, what was rejected there, its limits against the requests, and what it would get.

    Args:
        query: context of the query.
        name: name of a queue or of one of its pseudo-queues, in any case.
        evaluate: whether to evaluate chunks again for near misses.

    Raises:
        NothingFound: there is no such queue; the error names the nearest.
    """
    return read_queue_answer(query, name, evaluate=evaluate)(proceed)


def read_queue_answer(query: QueryContext, name: str, *, evaluate: bool = True) -> Evaluation[QueueAnswer]:
    """As :func:`queue_answer`, in two parts: this reads; the returned function evaluates without a connection."""
    snapshot = last_snapshot(query)
    if snapshot is None:
        raise NothingFound("queue", name, "broker.snapshots", remedy="run a brokerage first: broker run production_job")
    queue = known_name("queue", unified_of(name), [str(one) for one in snapshot.unified.name], "schedconfig_json")
    # brokered chunks are read for near misses, and if the queue is not online
    is_online = snapshot.unified.status[snapshot.unified.name == queue][0] == ONLINE
    last = last_states(query.connection, query.now, brokered=evaluate or not is_online)
    states = [one for some in last.values() for one in some.newest]
    counted, decisions = totals_about(query, "queue", queue), decisions_of_the_day(query)
    brokerages = [
        _brokerage_line(
            query, _BrokerageTotals(kind, decisions.get(kind, 0), counted.get(kind, ()), own), queue, evaluate
        )
        for kind, own in _by_brokerage(last, counted).items()
    ]
    limits = request_limits(query, snapshot, queue, states) if evaluate else _nothing
    answer = _answer(query, snapshot, queue, states, tuple(line for line, _ in brokerages))

    def evaluated(proceed: Proceed) -> QueueAnswer:
        lines = tuple(line.model_copy(update={"near_misses": misses(proceed)}) for line, misses in brokerages)
        return answer.model_copy(update={"brokerages": lines, "limits": limits(proceed)})

    return evaluated


def _nothing(proceed: Proceed) -> tuple[()]:
    return ()


def _answer(
    query: QueryContext,
    snapshot: Snapshot,
    queue: str,
    states: Sequence[ChunkState],
    brokerages: tuple[BrokerageAtQueue, ...],
) -> QueueAnswer:
    row = int(np.flatnonzero(snapshot.unified.name == queue)[0])
    unified = snapshot.unified
    failing = failing_queues(query).get(queue)
    return QueueAnswer(
        now=query.now,
        snapshot=snapshot.id,
        taken_at=snapshot.taken_at,
        queue=queue,
        site=str(unified.atlas_site[row] or ""),
        cloud=unified.cloud[row],
        status=str(unified.status[row] or ""),
        type=str(unified.type[row] or ""),
        pseudo_queues=tuple(str(name) for name in snapshot.queues.name[snapshot.queues.unified == row]),
        jobs=job_numbers(snapshot, row),
        pilots=float(unified.n_pilots[row]),
        workers=float(unified.n_workers[row]),
        last_start_at=_instant(float(unified.laststart_s[row])),
        brokerages=brokerages,
        not_a_candidate=tuple(_refusing_brokerages(query, snapshot, row, queue, states)),
        limits=(),
        links=_links_of(query, snapshot, row),
        pins=tuple(pin.held_field for pin in held_pins(query.connection, query.now, queue)),
        failing=failing is not None and failing.is_failing,
        failed_jobs=0 if failing is None else failing.failed,
        finished_jobs=0 if failing is None else failing.finished,
        unhealthy=unhealthy(query, queue),
    )


@dataclass(frozen=True)
class _BrokerageTotals:
    """What one brokerage decided: how often in a day, about the queue, and last about chunks (None: about none)."""

    brokerage: str
    decisions: int
    counts: Sequence[QueueCount]
    last: LastStates | None


def _by_brokerage(last: Mapping[str, LastStates], counted: Iterable[str]) -> dict[str, LastStates | None]:
    """The last states of the brokerages of queues that have decided recently, by name."""
    names = {name for name in last if brokerage_of(name).candidate == "queue"}
    return {name: last.get(name) for name in sorted({*names, *counted})}


def _brokerage_line(
    query: QueryContext, decided: _BrokerageTotals, queue: str, evaluate: bool
) -> tuple[BrokerageAtQueue, Evaluation[tuple[NearMiss, ...]]]:
    """What one brokerage did with the queue, without the near misses, which are evaluated later."""
    last = decided.last
    states = () if last is None else last.newest
    # decisions that brokered are read only for near misses, as reading them takes long
    some = [state for state in states if evaluate or state.outcome != "brokered"]
    waiting = 0 if last is None else last.waiting
    rejected = rejected_at(some, queue)
    still = {code: [one for one in chunks if one.outcome != "brokered"] for code, chunks in rejected.items()}
    count = day_counts(decided.counts).get(queue, DayCount())
    line = BrokerageAtQueue(
        brokerage=decided.brokerage,
        decided_at=None if last is None else last.decided_at,
        decisions=decided.decisions,
        considered=count.considered,
        chosen=count.chosen,
        jobs_placed=count.placed,
        waiting=waiting,
        looked_at=min(waiting, MOST_READ),
        rejected=rejected_there(count, still),
        near_misses=(),
    )
    return line, misses_at_queue(query, decided.brokerage, queue, rejected) if evaluate else _nothing


def rejected_there(count: DayCount, waiting: Mapping[str, Sequence[ChunkState]]) -> tuple[RejectedThere, ...]:
    """The reasons that rejected a queue or nucleus in a day, most frequent first, with the waiting work. Pure."""
    lines = []
    for code, decisions in sorted(count.rejected.items(), key=lambda item: (-item[1], item[0])):
        states = waiting.get(code, ())
        tasks = sorted({state.jeditaskid for state in states})
        lines.append(RejectedThere(code=code, decisions=decisions, waiting=len(states), such_as=tuple(tasks[:SUCH_AS])))
    return tuple(lines)


def _refusing_brokerages(
    query: QueryContext, snapshot: Snapshot, row: int, queue: str, states: Sequence[ChunkState]
) -> list[NotACandidate]:
    """The brokerages for which the queue is no candidate, or is always rejected for its status."""
    unified = snapshot.unified
    refusals = []
    for name in brokerages_in_force(query.config):
        if brokerage_of(name).candidate != "queue":
            continue
        runs = unified.runs_analysis[row] if "analysis" in name else unified.runs_production[row]
        if not runs:
            seen = Observation(
                value=unified.type[row], operator="in", limit="its kind, unified", unit="-", key="queue.type"
            )
            refusals.append(
                NotACandidate(brokerage=name, code="queue_type", compared=seen, since=_since(query, queue, "type"))
            )
        elif unified.status[row] != ONLINE and not _is_chosen(queue, [one for one in states if one.brokerage == name]):
            seen = Observation(value=unified.status[row], operator="==", limit=ONLINE, unit="-", key="queue.status")
            since = _since(query, queue, "status")
            refusals.append(NotACandidate(brokerage=name, code="status", compared=seen, since=since))
    return refusals


def _is_chosen(queue: str, states: Sequence[ChunkState]) -> bool:
    """Whether the queue is a candidate of one of the newest decisions about chunks."""
    newest = sorted(states, key=lambda state: -state.decision)[:MOST_READ]
    return any(unified_of(name) == queue for state in looked_at(newest) for name in state.chosen)


def _since(query: QueryContext, queue: str, field: str) -> datetime | None:
    """Since when a field of the queue has its value: from a pin, else from the last change by a feed."""
    pins = [pin for pin in pins_of_queue(query.connection, queue) if pin.field == field and pin.holds(query.now)]
    if pins:
        return pins[0].set_at
    for change in changes_of_queue(query.connection, queue, MOST_CHANGES):
        if change.changed_at <= query.now and field in change.fields:
            return change.changed_at
    return None


def _links_of(query: QueryContext, snapshot: Snapshot, row: int) -> tuple[LinkLine, ...]:
    """The links from the storage of the queue to the nuclei, those with the most files first."""
    sites = {int(site) for site in snapshot.queues.storage_site[snapshot.queues.unified == row] if site >= 0}
    tuning = tuning_in_force(query)
    lines = [line for site in sites for line in link_lines(snapshot, tuning, str(snapshot.links.sites[site]), None)]
    return tuple(sorted(lines, key=lambda line: (-(line.queued_files or 0.0), line.source, line.nucleus)))


def _instant(seconds: float) -> datetime | None:
    timestamp = figure(seconds)
    return None if timestamp is None or timestamp <= 0 else datetime.fromtimestamp(timestamp, UTC)


def queue_sentences(answer: QueueAnswer) -> Iterator[str]:
    """The verdict: what the queue got from each brokerage, or why it is no candidate at all."""
    for refusal in answer.not_a_candidate:
        yield not_a_candidate_sentence(refusal)
    closed = {refusal.brokerage for refusal in answer.not_a_candidate}
    for line in answer.brokerages:
        if line.brokerage not in closed:
            yield brokerage_sentence(line)
    if answer.failing:
        total = answer.failed_jobs + answer.finished_jobs
        yield f"Jobs of many tasks fail here: {answer.failed_jobs:,} of {total:,} that ended recently."
    yield from health_sentences(answer.unhealthy)


def health_sentences(places: Iterable[PlaceHealth]) -> Iterator[str]:
    """Sentences on how jobs end at the queue as a whole, and at how many of its nodes they fail."""
    nodes = [place for place in places if place.node]
    for place in places:
        if not place.node:
            yield f"For how jobs end here: {place.sentence}."
    if nodes:
        first = ", ".join(place.node for place in nodes[:SUCH_AS])
        yield f"Jobs fail at {len(nodes)} of its nodes ({first}{', ...' if len(nodes) > SUCH_AS else ''})."


def not_a_candidate_sentence(one: NotACandidate) -> str:
    """``Not a candidate of production_job: queue.status is paused, must be online, since ...``."""
    why = one.code.replace("_", " ") if one.compared is None else comparison(one.compared)
    since = "" if one.since is None else f", since {day_and_moment(one.since)}"
    return f"Not a candidate of {one.brokerage}: {why}{since}."


def brokerage_sentence(line: BrokerageAtQueue) -> str:
    """What the queue got in a day, and in how many decisions it was considered."""
    rejected = line.considered - line.chosen
    head = f"{line.brokerage}: got {many(line.jobs_placed, 'job')} in 24 h"
    if not line.considered:
        return f"{head}; it was considered in none of {many(line.decisions, 'decision')}."
    return (
        f"{head}; considered in {line.considered:,} of {many(line.decisions, 'decision')}, chosen in {line.chosen:,},"
        f" rejected in {rejected:,}."
    )


def near_miss_sentence(miss: NearMiss) -> str:
    """``9 chunks with 3,400 jobs would come if maxrss of BNL/MCORE were 32,000 MB instead of 24,000 MB``."""
    field = miss.field.removeprefix("queue.")
    return (
        f"{many(miss.chunks, 'chunk')} with {many(miss.jobs, 'job')} would come if {field} of {miss.pseudo_queue}"
        f" were {with_unit(miss.to, miss.unit)} instead of {with_unit(miss.now, miss.unit)}."
    )


class Pins(ResponseModel):
    """The fields of queues that operators hold now."""

    now: datetime
    pins: tuple[PinLine, ...]


def pins_answer(query: QueryContext) -> Pins:
    """The fields that operators hold, whatever CRIC says."""
    pins = held_pins(query.connection, query.now)
    return Pins(now=query.now, pins=tuple(pin.line(query.now) for pin in pins))
