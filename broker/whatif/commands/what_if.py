"""``broker what-if``: the decisions of stored cycles, or of a scenario, with other values or rules."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from broker import __version__
from broker.brokerages.registry import offered
from broker.cli.context import (
    SCENARIO_IF_LOADED,
    at_option,
    duration,
    installed_catalogue,
    moment_of,
    open_store,
    settings_of,
)
from broker.cli.output import print_json, remark
from broker.cli.rendering.plotting import check_plot
from broker.decisions.answers.rules_in_force import NoSuchBrokerage, rule_set
from broker.errors import FAILED, WRONG_USAGE, BrokerError, did_you_mean
from broker.gdpconfig.catalogue import Catalogue, shipped_catalogue
from broker.gdpconfig.proposals import Proposal, read_proposals, readers_beside_brokerages
from broker.whatif.answers.stored_cases import Selection, StoredCases, scenario_cases, stored_cases
from broker.whatif.commands.pictures import plot_difference
from broker.whatif.commands.what_if_report import show
from broker.whatif.model.cases import (
    Case,
    Change,
    ProfileRules,
    QueueField,
    Switch,
    read_fields,
    read_switches,
    with_switches,
)
from broker.whatif.model.comparison import task_documents, total_documents
from broker.whatif.model.executor import Answers, Comparing, answer

Vo = Annotated[str | None, typer.Option("--vo", help="VO of the tasks that the values are for [the installation's].")]
Last = Annotated[str | None, typer.Option("--last", metavar="24h", help="Cycles of this time [24h].")]
SnapshotId = Annotated[str | None, typer.Option("--snapshot", metavar="ID", help="Cycles on this snapshot.")]
ScenarioFile = Annotated[
    Path | None, typer.Option("--scenario", metavar="FILE", help="A scenario file; needs no database.")
]
At = Annotated[str | None, at_option("Where the time of --last ends", without=SCENARIO_IF_LOADED)]
Only = Annotated[list[str] | None, typer.Option("--brokerage", help="Only this brokerage; may be repeated.")]
Rule = Annotated[
    list[str] | None, typer.Option("--rule", metavar="NAME=on|off", help="Switch a rule; may be repeated.")
]
OtherProfile = Annotated[
    str | None, typer.Option("--profile", metavar="NAME", help="Decide by the rules of another profile.")
]
Processes = Annotated[int | None, typer.Option("--processes", min=1, max=1024, help="Processes [one for each core].")]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Seed of the cycles on a scenario.")]
Json = Annotated[bool, typer.Option("--json", help="One object per line: changed tasks, then the totals.")]
Plot = Annotated[Path | None, typer.Option("--plot", metavar="FILE.svg|png", help="Draw the two distributions.")]


class NothingToTry(BrokerError):
    """The comparison has no change."""

    exit_status = WRONG_USAGE


class TwoSources(BrokerError):
    """A call names more than one source of cycles."""

    exit_status = WRONG_USAGE


def cores() -> int:
    """The processor cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def what_if(
    context: typer.Context,
    changes: Annotated[
        list[str] | None,
        typer.Argument(metavar="[KEY|FIELD]=VALUE", help="With --queue a field of it, else a key.", show_default=False),
    ] = None,
    queue: Annotated[
        str | None, typer.Option("--queue", help="The queue whose fields are changed: any of CRIC, or its status.")
    ] = None,
    values: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Set a key; may be repeated.")
    ] = None,
    rule: Rule = None,
    profile: OtherProfile = None,
    last: Last = None,
    snapshot: SnapshotId = None,
    scenario: ScenarioFile = None,
    at: At = None,
    brokerage: Only = None,
    vo: Vo = None,
    processes: Processes = None,
    seed: Seed = 0,
    json: Json = False,
    plot: Plot = None,
) -> None:
    """Show what would have been decided with other values, rules, profile or queue fields; nothing is changed."""
    # a scenario needs no database, and has no installation whose VO would apply
    catalogue = shipped_catalogue() if scenario is not None else installed_catalogue(context)
    request = _read(catalogue, changes or [], queue, values or [], rule or [], profile, vo)
    check_plot(plot)
    report_skipped_tasks(request.proposals)
    before = rule_set(settings_of(context).config)
    other = before if profile is None else rule_set(settings_of(context).config, profile)
    rules = ProfileRules(with_switches(other.profile, request.switches), before.options)
    change = Change(request.proposals, rules, request.fields)
    chosen = tuple(brokerage) if brokerage else (None if request.fields or profile else affected(before, change))
    selection = CycleSelection(last, snapshot, scenario, at, chosen, seed)
    with cases_of(context, selection, before) as cases, progress(len(cases)) as emit:
        answers = answer(cases, Comparing(before, (change,)), processes or cores(), emit)
    report(answers)
    _show(request, answers, json)
    if plot is not None:
        plot_difference(answers.differences[0], plot)
    if answers.dropped_rows or answers.failed:
        raise typer.Exit(FAILED)


@dataclass(frozen=True)
class ChangeRequest:
    """The changes to compare with what was in force, as typed."""

    proposals: tuple[Proposal, ...]
    switches: tuple[Switch, ...]
    fields: tuple[QueueField, ...]
    profile: str | None

    def words(self) -> str:
        """The changes in words, as typed."""
        by_profile = () if self.profile is None else (f"profile {self.profile}",)
        return ", ".join(map(str, (*by_profile, *self.proposals, *self.switches, *self.fields)))

    def document(self) -> dict[str, object]:
        """The changes as an object."""
        held = {one.queue: {each.field: each.value for each in self.fields} for one in self.fields}
        return {
            "set": {one.key: one.value for one in self.proposals},
            "rules": {one.rule: one.on for one in self.switches},
            **({"queues_changed": held} if held else {}),
            **({} if self.profile is None else {"profile": self.profile}),
        }


def _read(
    catalogue: Catalogue,
    changes: Sequence[str],
    queue: str | None,
    values: Sequence[str],
    rule: Sequence[str],
    profile: str | None,
    vo: str | None,
) -> ChangeRequest:
    fields = () if queue is None else read_fields(queue, changes)
    keys = [*values, *(changes if queue is None else ())]
    request = ChangeRequest(read_proposals(catalogue, keys, vo or catalogue.vo), read_switches(rule), fields, profile)
    if not request.words():
        remedy = "name values as KEY=VALUE, rules with --rule, a --profile, or --queue QUEUE FIELD=VALUE"
        raise NothingToTry("nothing to compare with", "broker what-if", remedy)
    return request


def _show(request: ChangeRequest, answers: Answers, json: bool) -> None:
    difference = answers.differences[0]
    if not json:
        show(difference, request.words(), answers.baseline)
        return
    for document in task_documents(difference):
        print_json(document)
    for document in total_documents(difference):
        print_json({**document, **request.document(), "baseline": answers.baseline.document()})


def affected(before: ProfileRules, change: Change) -> tuple[str, ...] | None:
    """The brokerages that read a key of the change or have a rule that it switches; None (all) if there are none."""
    catalogue = shipped_catalogue()
    readers = {name for proposal in change.proposals for name in catalogue.require(proposal.key).read_by}
    entries = {entry.brokerage: entry for entry in change.rules.profile.brokerages}
    switched = {entry.brokerage for entry in before.profile.brokerages if entries.get(entry.brokerage) != entry}
    return tuple(name for name in entries if name in readers | switched) or None


@dataclass(frozen=True)
class CycleSelection:
    """The options that select the cycles to decide again, as typed."""

    last: str | None = None
    snapshot: str | None = None
    scenario: Path | None = None
    at: str | None = None
    brokerages: tuple[str, ...] | None = None
    seed: int = 0


@contextmanager
def cases_of(
    context: typer.Context, wanted: CycleSelection, rules: ProfileRules
) -> Iterator[Sequence[Case] | StoredCases]:
    """The selected cycles.

    Raises:
        TwoSources: more than one of ``--last``, ``--snapshot`` and ``--scenario`` is given.
        NoSuchBrokerage: a name is not that of a brokerage.
        NothingStored: no cycle matches.
    """
    sources = [name for name in ("last", "snapshot", "scenario") if getattr(wanted, name) is not None]
    if len(sources) > 1:
        raise TwoSources(" and ".join(f"--{name}" for name in sources), "broker what-if", "give one of them")
    known = [entry.brokerage for entry in rules.profile.brokerages]
    for name in wanted.brokerages or ():
        if name not in known:
            remedy = did_you_mean(name, known, f"known are {', '.join(known)}")
            raise NoSuchBrokerage(f"no such brokerage: {name[:60]}", "--brokerage", remedy)
    if wanted.scenario is not None:
        chosen = wanted.brokerages or tuple(known)
        yield scenario_cases(wanted.scenario, chosen, wanted.seed, settings_of(context).config)
        return
    length = duration(wanted.last or "24h", "--last")
    with open_store(context) as database:
        if wanted.snapshot is not None:
            yield stored_cases(database, Selection(snapshot=wanted.snapshot, brokerages=wanted.brokerages))
            return
        until = moment_of(wanted.at, database, of_scenario=True)
        yield stored_cases(database, Selection(until - length, until, brokerages=wanted.brokerages))


@contextmanager
def progress(pairs: int) -> Iterator[Callable[[int], None]]:
    """Show a progress bar on stderr over (cycle, value) pairs; nothing if stderr is not a terminal."""
    columns = (TextColumn("deciding again"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=pairs)
        yield lambda done: bar.update(task, completed=done)


def report_skipped_tasks(proposals: Sequence[Proposal]) -> None:
    """Print to stderr the keys whose effect no decision can show."""
    for proposal in proposals:
        readers = readers_beside_brokerages(shipped_catalogue(), proposal, offered())
        if readers:
            remark(f"note: {proposal.key} is read by {readers}, not by a brokerage: no decision differs by it")


def report(answers: Answers) -> None:
    """Print notes and errors about the cycles to stderr."""
    for version in sorted(answers.engines - {__version__}):
        remark(
            f"note: some cycles were decided by version {version}; both sides are decided by the rules of {__version__}"
        )
    for failure in (*answers.dropped_rows, *answers.failed):
        remark(f"error: left out: {failure}")
