"""The first page at a glance: figures with their change, reasons by weight, sites as tiles. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence, Set
from dataclasses import dataclass
from datetime import datetime

from markupsafe import Markup

from broker.decisions.answers.known_reasons import reasons_of
from broker.grid.answers.models import Queues
from broker.grid.pages.grid_map import Site
from broker.history.answers.list_models import ReasonLine, Reasons
from broker.service.answers.flow import Flow, WorkFlow
from broker.service.answers.models import AgentLine
from broker.web.pictures.over_time import sparkline

MOST_REASONS, MOST_TILES = 8, 24
#: Outcomes of a cycle that did its work, or is still doing it.
WELL = (None, "done", "running")


@dataclass(frozen=True)
class Figure:
    """A figure of the first page: its name, value, change, line, and a link to more."""

    name: str
    number: str
    text: str
    spark: Markup
    address: str


@dataclass(frozen=True)
class Waiting:
    """What waits for one reason, over all brokerages.

    Attributes:
        code: code of the reason.
        meaning: the reason as a sentence.
        chunks: number of waiting chunks.
        tasks: number of their tasks.
        oldest: since when the oldest has waited; None if unknown.
    """

    code: str
    meaning: str
    chunks: int
    tasks: int
    oldest: datetime | None


@dataclass(frozen=True)
class Tile:
    """A site as a tile: its name, description, and the class of its state."""

    name: str
    text: str
    class_: str
    site: str


def is_ill(agent: AgentLine) -> bool:
    """Return whether an agent needs attention: it does not run as it should, or is paused."""
    return agent.enabled and (agent.last_outcome not in WELL or agent.pause is not None)


def figures(flow: WorkFlow) -> list[Figure]:
    """Return the flow of work in four figures an hour: placed, started, finished, and the failed part of ended jobs."""
    steps = f"each step {'5 min' if flow.step_s < 3600 else '1 h'}"
    failed = flow.failed_percent
    return [
        Figure("Jobs placed an hour", _number(flow.placed.last_hour), change(flow.placed),
               sparkline(f"Jobs placed, {steps}", flow.placed.steps), "/tasks"),
        Figure("Jobs started an hour", _number(flow.started.last_hour), change(flow.started),
               sparkline("Jobs started, each step 1 h", flow.started.steps, "good"), "/jobs?state=running"),
        Figure("Jobs finished an hour", _number(flow.finished.last_hour), change(flow.finished),
               sparkline("Jobs finished, each step 1 h", flow.finished.steps, "good"), "/jobs?state=finished"),
        Figure("Jobs that fail", "–" if failed is None else f"{failed:.1f} %", _points(flow),  # noqa: RUF001
               sparkline("Jobs failed, each step 1 h", flow.failed.steps, "lost"), "/jobs?state=failed"),
    ]  # fmt: skip


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:,.0f}"  # noqa: RUF001


def change(flow: Flow) -> str:
    """Describe how a stream has changed since the same hour of the day before."""
    if flow.last_hour is None:
        return "nothing was counted yet"
    if flow.day_before is None:
        return "yesterday not known"
    more = flow.last_hour - flow.day_before
    if round(more) == 0:
        return "as yesterday"
    part = f" ({abs(more) / flow.day_before:.0%})" if flow.day_before else ""
    return f"{'▲' if more > 0 else '▼'} {abs(more):,.0f}{part} to yesterday"


def _points(flow: WorkFlow) -> str:
    now, before = flow.failed_percent, flow.failed_percent_before
    if now is None:
        return "no job ended yet"
    if before is None:
        return f"{flow.failed.last_hour or 0:,.0f} failed in the last hour"
    if abs(now - before) < 0.05:
        return "as yesterday"
    return f"{'▲' if now > before else '▼'} {abs(now - before):.1f} points to yesterday"


def waiting_by_code(answer: Reasons, flow: WorkFlow) -> list[Waiting]:
    """Return what waits by reason, over all brokerages, the most first."""
    by_code: defaultdict[str, list[ReasonLine]] = defaultdict(list)
    for line in answer.lines:
        if line.chunks:
            by_code[line.main_code or line.reason].append(line)
    waiting = []
    for code, lines in by_code.items():
        reasons = reasons_of(code)
        waiting.append(
            Waiting(
                code=code,
                meaning=reasons[0].reason.wrong if reasons else code.replace("_", " "),
                chunks=sum(line.chunks for line in lines),
                tasks=sum(line.tasks for line in lines),
                oldest=min((line.oldest_since for line in lines if line.oldest_since), default=None),
            )
        )
    return sorted(waiting, key=lambda line: (-line.chunks, line.code))


def what_waits(why: Sequence[Waiting], flow: WorkFlow) -> str:
    """Describe how much waits in all, and the change since yesterday."""
    chunks, tasks = sum(line.chunks for line in why), sum(line.tasks for line in why)
    waits = flow.waiting.model_copy(update={"last_hour": float(chunks)})
    return f"{chunks:,} chunks of {tasks:,} tasks, {change(waits)}"


def tiles(sites: Sequence[Site], ill_queues: Set[str], queue_list: Queues) -> list[Tile]:
    """Return the sites where most runs; first come failing sites, and those not online though work waits there."""
    ill = {line.site or line.queue for line in queue_list.queues if line.queue in ill_queues}
    ranked = sorted(sites, key=lambda site: (site.name not in ill, -(site.running + site.queued), site.name))
    return [Tile(site.name, _site_text(site, ill), _class(site, ill), site.name) for site in ranked[:MOST_TILES]]


def _site_text(site: Site, ill: Set[str]) -> str:
    if site.name in ill:
        return f"fails; {site.running:,} run"
    if not site.online:
        return "not online"
    return f"{site.running:,} run, {site.queued:,} wait"


def _class(site: Site, ill: Set[str]) -> str:
    if site.name in ill:
        return "fail"
    if not site.online:
        return "idle"
    return "run" if site.running else "wait"
