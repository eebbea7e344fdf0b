"""The reference pages that are made from the code: command line, and rules with their reason codes.

``python -m broker.cli.reference`` writes them; a test compares them with what is there.
"""

from __future__ import annotations

import sys
from pathlib import Path

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

from broker.brokerages.profile import read_profile
from broker.cli.main import build_app
from broker.cli.rules import chain_of, kind_of
from broker.engine.chain import RuleList
from broker.engine.rank import LOW_WEIGHT, OTHERS_BOOTSTRAP, WEIGHT_UNKNOWN
from broker.resources import path

STEP_CODES = {
    LOW_WEIGHT: "the best 10 candidates are taken, and this is not one of them",
    OTHERS_BOOTSTRAP: "the queue has no jobs at all and would get some to start with, but 10 others come first",
    WEIGHT_UNKNOWN: "a factor of the weight is not a finite number",
    "unknown_queue": "the task names a queue that the snapshot does not have",
    "unknown_RULE": "a source of the rule is missing or too old, or the rule failed; the decision's notes say which",
}
CHUNK_REASONS = {
    "no_candidates": "no queue was left",
    "candidates_full": "candidates were left, but none took a job",
    "unknown_nucleus": "the task's nucleus is not on the map",
    "unknown_dataset": "the replica catalogue does not know an input dataset",
    "no_complete_replica": "an input dataset is complete nowhere",
    "replica_unreadable": "an input dataset is complete only where nobody can read it",
}


def command_line() -> str:
    """Every command with its arguments and options, as Markdown."""
    group = typer.main.get_command(build_app())
    lines = ["# Command line", "", "Made from the commands by `python -m broker.cli.reference`.", ""]
    lines += [
        "Exit status: 0 done, 1 failed, 2 wrong usage, 3 refused (stale data, not the leader, invalid input).",
        "",
    ]
    lines += _options(group)
    for words, command in _commands(group, ("broker",)):
        lines += [f"## `{' '.join(words)}`", "", _cell(command.help or ""), ""]
        names = [str(one.name).upper() for one in command.params if isinstance(one, TyperArgument)]
        lines += ["```", " ".join([*words, "[OPTIONS]", *names]), "```", ""]
        lines += _options(command)
    return "\n".join(lines).rstrip() + "\n"


def _commands(command: object, words: tuple[str, ...]) -> list[tuple[tuple[str, ...], TyperCommand]]:
    if isinstance(command, TyperCommand):
        return [(words, command)]
    found = []
    if isinstance(command, TyperGroup):
        for name, inner in command.commands.items():
            found += _commands(inner, (*words, name))
    return found


def _options(command: object) -> list[str]:
    rows = []
    for option in getattr(command, "params", ()):
        if isinstance(option, TyperOption) and "--help" not in option.opts:
            names = ", ".join(f"`{name}`" for name in (*option.opts, *option.secondary_opts))
            rows.append(f"| {names} | {_cell(option.help or '')} |")
    return ["| option | meaning |", "|---|---|", *rows, ""] if rows else []


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def rules() -> str:
    """The rules of every brokerage of the shipped profile, in order, as Markdown."""
    profile = read_profile(path("config/profiles/seed.yaml").read_text(encoding="utf-8"))
    lines = ["# Rules and reason codes", "", "Made from the rules by `python -m broker.cli.reference`.", ""]
    lines += [
        "A queue shows the code of the first rule that rejects it for good (*persistent*), else of the last that "
        "rejects it for now (*temporary*). *When unknown* says what happens to the candidates when a source of the "
        "rule is missing or too old.",
        "",
    ]
    for entry in profile.brokerages:
        lines += [f"## {entry.brokerage}", "", "| rule | code | kind | when unknown | tuning keys | what it asks |"]
        lines.append("|---|---|---|---|---|---|")
        for rule in chain_of(entry.brokerage, None, RuleList):
            unknown = rule.unknown_policy if rule.sources else ""
            keys = ", ".join(f"`{key}`" for key in rule.keys)
            lines.append(
                f"| {rule.name} | `{rule.code}` | {kind_of(rule)} | {unknown} | {keys} | {_cell(rule.title)} |"
            )
        lines.append("")
    lines += _codes("Codes of steps that are no rules", STEP_CODES) + _codes("Reasons of a whole chunk", CHUNK_REASONS)
    return "\n".join(lines).rstrip() + "\n"


def _codes(title: str, codes: dict[str, str]) -> list[str]:
    rows = [f"| `{code}` | {_cell(meaning)} |" for code, meaning in codes.items()]
    return [f"## {title}", "", "| code | meaning |", "|---|---|", *rows, ""]


PAGES = {"command-line.md": command_line, "rules.md": rules}


def main(folder: Path) -> None:
    """Write the pages into ``folder``."""
    for name, page in PAGES.items():
        (folder / name).write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path("docs/reference"))
