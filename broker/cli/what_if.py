"""``broker what-if``: what stored cycles, or a scenario, would have decided with other values or rules."""

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

from agents import registry
from agents.configuration import config_file, load
from agents.process import load_process
from broker import __version__
from broker.brokerages.profile import ProfileError, read_profile
from broker.cli.context import open_store, settings_of
from broker.cli.moments import duration, moment_of
from broker.cli.output import print_json, remark
from broker.cli.scenario_cases import scenario_cases
from broker.cli.stored_cases import Selection, StoredCases, stored_cases
from broker.cli.what_if_report import show
from broker.errors import FAILED, WRONG_USAGE, BrokerError
from broker.gdpconfig.proposals import Proposal, read_proposals, readers_beside_brokerages
from broker.gdpconfig.shipped import shipped_catalogue
from broker.whatif.cases import Case, Change, RuleSet
from broker.whatif.documents import task_documents, total_documents
from broker.whatif.plot import check_plot, plot_difference
from broker.whatif.rule_switches import Switch, read_switches, with_switches
from broker.whatif.running import Answers, Comparing, answer

Vo = Annotated[str, typer.Option("--vo", help="VO of the tasks that the values are for.")]
Last = Annotated[str | None, typer.Option("--last", metavar="24h", help="Cycles of this time [24h].")]
SnapshotId = Annotated[str | None, typer.Option("--snapshot", metavar="ID", help="Cycles on this snapshot.")]
ScenarioFile = Annotated[
    Path | None, typer.Option("--scenario", metavar="FILE", help="A scenario file; needs no database.")
]
At = Annotated[str, typer.Option("--at", metavar="TIME|now", help="Where the time of --last ends (UTC).")]
Only = Annotated[list[str] | None, typer.Option("--brokerage", help="Only this brokerage; may be repeated.")]
Rule = Annotated[
    list[str] | None, typer.Option("--rule", metavar="NAME=on|off", help="Switch a rule; may be repeated.")
]
Processes = Annotated[int | None, typer.Option("--processes", min=1, max=1024, help="Processes [one for each core].")]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Of the cycles on a scenario.")]
Json = Annotated[bool, typer.Option("--json", help="One object a line: changed tasks, then the totals.")]
Plot = Annotated[Path | None, typer.Option("--plot", metavar="FILE.svg|png", help="Draw the two distributions.")]


class NothingToTry(BrokerError):
    """A comparison of a thing with itself."""

    exit_status = WRONG_USAGE


class TwoSources(BrokerError):
    """Cycles of two kinds at once."""

    exit_status = WRONG_USAGE


def cores() -> int:
    """The processor cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def what_if(
    context: typer.Context,
    values: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Set a key; may be repeated.")
    ] = None,
    rule: Rule = None,
    last: Last = None,
    snapshot: SnapshotId = None,
    scenario: ScenarioFile = None,
    at: At = "now",
    brokerage: Only = None,
    vo: Vo = "atlas",
    processes: Processes = None,
    seed: Seed = 0,
    json: Json = False,
    plot: Plot = None,
) -> None:
    """What would have been decided with other tuning values or rules; nothing is changed."""
    proposals = read_proposals(shipped_catalogue(), values or [], vo)
    switches = read_switches(rule or [])
    if not proposals and not switches:
        raise NothingToTry("nothing to compare with", "broker what-if", "name values with --set or rules with --rule")
    if plot is not None:
        check_plot(plot)
    tell_of_others(proposals)
    before = rule_set(settings_of(context).config)
    change = Change(proposals, RuleSet(with_switches(before.profile, switches), before.quota_closed))
    wanted = Wanted(last, snapshot, scenario, at, tuple(brokerage) if brokerage else None, seed)
    with cases_of(context, wanted, before) as cases, progress(len(cases)) as tell:
        answers = answer(cases, len(cases), Comparing(before, (change,)), processes or cores(), tell)
        left_out = cases.left_out if isinstance(cases, StoredCases) else []
    report(answers, left_out)
    found = answers.differences[0]
    if json:
        for document in task_documents(found):
            print_json(document)
        for document in total_documents(found):
            print_json({**document, **_asked(proposals, switches)})
    else:
        show(found, ", ".join(map(str, (*proposals, *switches))))
    if plot is not None:
        plot_difference(found, plot)
    if left_out or answers.failed:
        raise typer.Exit(FAILED)


def _asked(proposals: Sequence[Proposal], switches: Sequence[Switch]) -> dict[str, object]:
    return {"set": {one.key: one.value for one in proposals}, "rules": {one.rule: one.on for one in switches}}


@dataclass(frozen=True)
class Wanted:
    """Which cycles are to be decided again, as it was typed."""

    last: str | None = None
    snapshot: str | None = None
    scenario: Path | None = None
    at: str = "now"
    brokerages: tuple[str, ...] | None = None
    seed: int = 0


@contextmanager
def cases_of(context: typer.Context, wanted: Wanted, rules: RuleSet) -> Iterator[Sequence[Case] | StoredCases]:
    """The cycles that are wanted.

    Raises:
        TwoSources: more than one of ``--last``, ``--snapshot`` and ``--scenario``.
        NothingToTry: there is no brokerage of a name.
        NothingStored: there is no such cycle.
    """
    given = [name for name in ("last", "snapshot", "scenario") if getattr(wanted, name) is not None]
    if len(given) > 1:
        raise TwoSources(" and ".join(f"--{name}" for name in given), "broker what-if", "give one of them")
    known = [entry.brokerage for entry in rules.profile.brokerages]
    for name in wanted.brokerages or ():
        if name not in known:
            raise NothingToTry(f"no such brokerage: {name[:60]}", "--brokerage", f"known are {', '.join(known)}")
    if wanted.scenario is not None:
        chosen = wanted.brokerages or tuple(known)
        yield scenario_cases(wanted.scenario, chosen, wanted.seed, settings_of(context).config)
        return
    length = duration(wanted.last or "24h", "--last")
    with open_store(context) as database:
        if wanted.snapshot is not None:
            yield stored_cases(database, Selection(snapshot=wanted.snapshot, brokerages=wanted.brokerages))
            return
        until = moment_of(wanted.at, database)
        yield stored_cases(database, Selection(until - length, until, brokerages=wanted.brokerages))


def rule_set(config: Path | None) -> RuleSet:
    """The rules in force: those of the profile that ``broker.yaml`` names.

    Raises:
        BrokerError: the profile cannot be used.
    """
    name = load_process(config_file("broker.yaml", config), config).profile
    file = config_file(f"profiles/{name}.yaml", config)
    try:
        profile = read_profile(file.read_text(encoding="utf-8"))
    except (OSError, ProfileError) as error:
        raise BrokerError(str(error), str(file), "mend the profile") from error
    agents = load(config_file("agents.yaml", config), registry.NAMES).agents
    options = agents["analysis_job"].options if "analysis_job" in agents else {}
    return RuleSet(profile, options.get("quota_unknown", "closed") == "closed")


@contextmanager
def progress(pairs: int) -> Iterator[Callable[[int], None]]:
    """A bar on stderr over so many (cycle, value) pairs; nothing where stderr is no terminal."""
    columns = (TextColumn("deciding again"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=pairs)
        yield lambda done: bar.update(task, completed=done)


def tell_of_others(proposals: Sequence[Proposal]) -> None:
    """Say on stderr of which keys no decision can show the effect."""
    for one in proposals:
        readers = readers_beside_brokerages(shipped_catalogue(), one)
        if readers:
            remark(f"note: {one.key} is read by {readers}, not by a brokerage: no decision differs by it")


def report(answers: Answers, left_out: Sequence[str]) -> None:
    """Say on stderr what is not as it should be."""
    for version in sorted(answers.engines - {__version__}):
        remark(
            f"note: some cycles were decided by version {version}; both sides are decided by the rules of {__version__}"
        )
    for one in (*left_out, *answers.failed):
        remark(f"error: left out: {one}")
