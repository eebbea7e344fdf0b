"""The reference pages generated from the code: command line, and rules with their reason codes.

``make reference`` writes them; a test compares them with the committed pages.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

from broker.brokerages.offered import SHIPPED
from broker.brokerages.registry import brokerage
from broker.cli.application import build_app
from broker.decisions.answers.known_reasons import known_reasons
from broker.decisions.commands import rules as reason_reference
from broker.decisions.commands.rules import kind_of
from broker.errors import EXIT_STATUSES
from broker.gdpconfig.catalogue import shipped_catalogue
from broker.gdpconfig.reference import render_reference


def command_line() -> str:
    """Return every command with its arguments and options, as Markdown."""
    group = typer.main.get_command(build_app())
    lines = ["# Command line", "", "Made from the commands by `make reference`.", ""]
    lines += [
        "## Exit statuses",
        "",
        "| status | `code` with `--json` | meaning |",
        "|---|---|---|",
        *(f"| {status} | `{name}` | {meaning} |" for status, (name, meaning) in EXIT_STATUSES.items()),
        "",
        "With `--json` or `--format json` an error is one object on stdout: "
        '`{"error": {"code", "exit_status", "what", "where", "what_to_do"}}`.',
        "",
        "## Options of every command",
        "",
    ]
    lines += _options(group)
    for words, command in commands_of(group, ("broker",)):
        lines += [f"## `{' '.join(words)}`", "", _cell(command.help or ""), ""]
        names = [str(parameter.name).upper() for parameter in command.params if isinstance(parameter, TyperArgument)]
        lines += ["```", " ".join([*words, "[OPTIONS]", *names]), "```", ""]
        lines += _options(command)
    return "\n".join(lines).rstrip() + "\n"


def commands_of(command: object, words: tuple[str, ...]) -> list[tuple[tuple[str, ...], TyperCommand]]:
    """Return the commands of a group, at any depth, each with its words."""
    if isinstance(command, TyperCommand):
        return [(words, command)]
    leaves = []
    if isinstance(command, TyperGroup):
        for name, inner in command.commands.items():
            leaves += commands_of(inner, (*words, name))
    return leaves


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
    """Return the rules of every brokerage as shipped, in order, as Markdown."""
    lines = ["# Rules and reason codes", "", "Made from the rules by `make reference`.", ""]
    lines += [
        "A queue shows the code of the first rule that rejects it for good (*persistent*), else of the last that "
        "rejects it for now (*temporary*). *On missing data* says what happens to the candidates when a source of the "
        "rule is missing or too old.",
        "",
    ]
    for name in SHIPPED:
        lines += [f"## {name}", "", "| rule | code | kind | on missing data | tuning keys | what it asks |"]
        lines.append("|---|---|---|---|---|---|")
        for rule in brokerage(name).chain():
            unknown = rule.unknown_policy if rule.sources else ""
            keys = ", ".join(f"`{key}`" for key in rule.keys)
            lines.append(
                f"| {rule.name} | `{rule.code}` | {kind_of(rule)} | {unknown} | {keys} | {_cell(rule.title)} |"
            )
        lines.append("")
    lines += _other_codes(SHIPPED)
    return "\n".join(lines).rstrip() + "\n"


def _other_codes(brokerages: Sequence[str]) -> list[str]:
    """Return the codes of steps, and the reasons for whole chunks and tasks: those that no rule in force gives."""
    codes = {rule.code for name in brokerages for rule in brokerage(name).chain()}
    other_reasons = {code: reasons for code, reasons in known_reasons().items() if code not in codes}
    rows = [f"| `{code}` | {_cell(reasons[0].reason.wrong)} |" for code, reasons in other_reasons.items()]
    about = "Of steps that are no rules, of rules that a profile may add, and of whole chunks and tasks."
    return ["## Other codes", "", about, "", "| code | what is wrong |", "|---|---|", *rows, ""]


def gdpconfig() -> str:
    """Return the tuning keys as Markdown."""
    return render_reference(shipped_catalogue())


def description() -> str:
    """Return the OpenAPI 3.1 description of the HTTP API, as JSON."""
    from broker.api.app import described

    return json.dumps(described(), indent=1, ensure_ascii=True, sort_keys=True) + "\n"


def reason_codes() -> str:
    """Return every reason code with who can remedy it, as Markdown."""
    return reason_reference.page(SHIPPED)


PAGES = {
    "command-line.md": command_line,
    "rules.md": rules,
    "gdpconfig.md": gdpconfig,
    "reason-codes.md": reason_codes,
    "openapi.json": description,
}


def main(folder: Path) -> None:
    """Write the pages into ``folder``."""
    for name, page in PAGES.items():
        (folder / name).write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path("docs/reference"))
