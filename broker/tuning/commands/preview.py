"""A change looked at before it is made: what-if on the newest cycles, and a question where it goes beyond limits."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import typer
import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from agents.service.configuration import ConfigurationError, config_file
from broker.cli.context import open_store, settings_of
from broker.cli.output import print_json, remark
from broker.decisions.answers.rules_in_force import rule_set
from broker.errors import Refused
from broker.gdpconfig.proposals import Proposal
from broker.whatif.answers.stored_cases import NothingStored, Selection, stored_cases
from broker.whatif.commands.what_if import affected, cores, progress, report, report_skipped_tasks
from broker.whatif.commands.what_if_report import show
from broker.whatif.model.cases import Change
from broker.whatif.model.comparison import Difference, total_documents
from broker.whatif.model.executor import Comparing, answer
from broker.wrong_values import what_is_wrong
from broker.yaml_text import read_yaml


class PreviewLimits(BaseModel):
    """``config/preview.yaml``.

    Attributes:
        cycles: of each brokerage, the newest.
        changed_outcomes: share of decisions whose outcome may change without a question.
        tasks_losing_last_queue: tasks that may become unschedulable without a question.
        jobs_moved: share of jobs that may be placed differently without a question.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    cycles: int = Field(default=3, ge=1, le=1000)
    decisions: int = Field(default=200, ge=1, le=100_000)
    changed_outcomes: float = Field(default=0.02, ge=0, le=1, allow_inf_nan=False)
    tasks_losing_last_queue: int = Field(default=0, ge=0)
    jobs_moved: float = Field(default=0.10, ge=0, le=1, allow_inf_nan=False)


class NotConfirmed(Refused):
    """The change goes beyond the limits, and nobody said that it is meant."""


def preview(context: typer.Context, proposals: Sequence[Proposal], *, yes: bool, look_only: bool, json: bool) -> None:
    """Show what values would change; unless that is all that is wanted, go on only with a yes.

    Raises:
        NotConfirmed: nobody said yes.
        NothingStored: there is no cycle to look at, and nothing else was wanted.
        ConfigurationError: the file with the limits cannot be used.
    """
    limits = read_limits(config_file("preview.yaml", settings_of(context).config))
    rules = rule_set(settings_of(context).config)
    try:
        with open_store(context) as database:
            change = Change(tuple(proposals), rules)
            cases = stored_cases(
                database,
                Selection(newest=limits.cycles, decisions=limits.decisions, brokerages=affected(rules, change)),
            )
            with progress(len(cases)) as emit:
                answers = answer(cases, Comparing(rules, (change,)), cores(), emit)
    except NothingStored as error:
        if look_only:
            raise
        _confirm([str(error), "what would change is not known"], yes)
        return
    report(answers)
    report_skipped_tasks(proposals)
    found = answers.differences[0]
    if json:
        for document in total_documents(found):
            print_json({**document, "kind": "preview", "baseline": answers.baseline.document()})
    else:
        show(found, ", ".join(map(str, proposals)), answers.baseline)
    missing = [f"{len(answers.dropped_rows) + len(answers.failed)} cycle(s) could not be decided again"]
    beyond = [*(missing if answers.dropped_rows or answers.failed else []), *beyond_limits(found, limits)]
    if look_only:
        for sentence in beyond:
            remark(f"warning: {sentence}")
        remark("nothing was changed")
    else:
        _confirm(beyond, yes)


def beyond_limits(found: Difference, limits: PreviewLimits) -> list[str]:
    """The limits that a difference passes, one sentence each; the worst first."""
    sentences = []
    losing = found.tasks_losing_last()
    if len(losing) > limits.tasks_losing_last_queue:
        named = ", ".join(map(str, losing[:5])) + (" ..." if len(losing) > 5 else "")
        allowed = limits.tasks_losing_last_queue
        sentences.append(f"{len(losing)} task(s) become unschedulable ({named}); the limit is {allowed}")
    changed = sum(
        count for totals in found.totals.values() for (was, is_), count in totals.outcomes.items() if was != is_
    )
    decisions = found.total("decisions")
    if changed > limits.changed_outcomes * decisions:
        share = f"{changed} of {decisions} outcomes change ({changed / max(1, decisions):.1%})"
        sentences.append(f"{share}; the limit is {limits.changed_outcomes:.1%}")
    moved, jobs = found.total("jobs_moved"), sum(totals.jobs_before.total() for totals in found.totals.values())
    if moved > limits.jobs_moved * jobs:
        share = f"{moved} of {jobs} jobs move ({moved / max(1, jobs):.1%})"
        sentences.append(f"{share}; the limit is {limits.jobs_moved:.1%}")
    return sentences


def read_limits(path: Path) -> PreviewLimits:
    """Read and check the file.

    Raises:
        ConfigurationError: it is missing, no YAML, has unknown names, or values out of range.
    """
    try:
        content = read_yaml(path.read_text(encoding="utf-8"))
        return PreviewLimits.model_validate({} if content is None else content)
    except ValidationError as error:
        raise ConfigurationError(what_is_wrong(error), str(path), "compare with the file that is shipped") from error
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigurationError(str(error), str(path), "compare with the file that is shipped") from error


def _confirm(sentences: Sequence[str], yes: bool) -> None:
    for sentence in sentences:
        remark(f"warning: {sentence}")
    if yes:
        return
    remedy = "nothing was changed; see config/preview.yaml for the limits"
    if not sys.stdin.isatty():
        raise NotConfirmed("the change is not confirmed, and there is nobody to ask", "", f"{remedy}, or give --yes")
    if not typer.confirm("Make the change?", err=True):
        raise NotConfirmed("the change is not confirmed", "", remedy)
