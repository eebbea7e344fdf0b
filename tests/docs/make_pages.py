"""Generates the pages and files that repeat facts of the code: ``make reference`` writes them, and tests compare them.

The table of packages in ``docs/explanation/architecture.md`` comes from ``docs/explanation/packages.yaml``; the
tables of rules in ``docs/reference/criteria.md`` come from the rules of the production job brokerage; the list of all
defaults, ``tests/gdpconfig/defaults.yaml``, from the catalogue, so that a review shows every changed default; the
requirements in ``config/sources.yaml`` come from the sources.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from broker.brokerages.production_job.brokerage import chain
from broker.gdpconfig.catalogue import shipped_catalogue
from broker.rules.contract import Rule
from broker.snapshot.source import AnySource, SourceLimit
from broker.snapshot.source_list import GRID_SOURCES
from broker.tasks.model.catalogue import HONOURED, REFUSED, WITHOUT_EFFECT, Parameter
from broker.tasks.model.verbs import ALLOWED, MEANINGS, RETRY_PARAMETERS, VERBS
from tests.docs.source_tree import ROOT

PACKAGES = ROOT / "docs" / "explanation" / "packages.yaml"
ARCHITECTURE = ROOT / "docs" / "explanation" / "architecture.md"
SOURCES = ROOT / "config" / "sources.yaml"
DEFAULTS = ROOT / "tests" / "gdpconfig" / "defaults.yaml"
CRITERIA = ROOT / "docs" / "reference" / "criteria.md"
TASK_VERBS = ROOT / "docs" / "reference" / "task-verbs.md"
TASK_PARAMETERS = ROOT / "docs" / "reference" / "task-parameters.md"


@cache
def house() -> dict[str, Any]:
    """The packages from the bottom up, the layers of a feature, the features, and the exceptions."""
    document: dict[str, Any] = yaml.safe_load(PACKAGES.read_text(encoding="utf-8"))
    return document


def architecture() -> str:
    """The architecture page with up-to-date tables of packages, layers and features."""
    page = ARCHITECTURE.read_text(encoding="utf-8")
    head = ["| package | what is in it | what it may import of ours |", "|---|---|---|"]
    rows = [
        f"| {_name(row['package'])} | {row['contents']} | {_imports(row['imports'])} |" for row in house()["packages"]
    ]
    page = _with_table(page, "packages", [*head, *rows])
    head = ["| layer | what is in it | what it may import of ours beside the layers above |", "|---|---|---|"]
    rows = [f"| `{row['layer']}` | {row['contents']} | {_imports(row['imports'])} |" for row in house()["layers"]]
    page = _with_table(page, "layers", [*head, *rows])
    rows = [f"| `broker/{name}/` | {contents} |" for name, contents in house()["features"].items()]
    return _with_table(page, "features", ["| feature | what it is for |", "|---|---|", *rows])


def _with_table(page: str, name: str, lines: Sequence[str]) -> str:
    """Replace the lines between the comments that name a table."""
    start, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
    return "\n".join([page[: page.index(start) + len(start) - 1], *lines, "", page[page.index(end) :]])


def criteria() -> str:
    """The page on PanDA's tokens with up-to-date tables of rules."""
    filters, cuts = chain().filters, chain().cuts
    by_code: dict[str, list[Rule]] = {}
    for rule in (*filters, *cuts):
        by_code.setdefault(rule.code, []).append(rule)
    tokens = ["| token | rules | what they ask | source |", "|---|---|---|---|"]
    for code, rules in by_code.items():
        titles, sources = (
            "; ".join(dict.fromkeys(texts)) for texts in zip(*map(_title_and_source, rules), strict=True)
        )
        tokens.append(f"| `{code}` | {_names(rules)} | {titles} | {sources} |")
    missing = ["| source | kept | rejected |", "|---|---|---|"]
    for source in sorted({source for rule in filters for source in rule.sources} - {"queues"}):
        needing = [rule for rule in filters if source in rule.sources]
        keeping_rules, rejecting_rules = (
            [rule for rule in needing if rule.unknown_policy == policy] for policy in ("keep", "reject")
        )
        missing.append(f"| {source} | {_names(keeping_rules)} | {_names(rejecting_rules)} |")
    page = _with_table(CRITERIA.read_text(encoding="utf-8"), "tokens", tokens)
    return _with_table(page, "missing sources", missing)


def _title_and_source(rule: Rule) -> tuple[str, str]:
    return rule.title, rule.provenance


def _names(rules: Sequence[Rule]) -> str:
    return ", ".join(f"`{rule.name}`" for rule in rules)


def _name(package: str) -> str:
    return f"`{package}`" if "." in package or package == "agents" else package


def _imports(names: list[str]) -> str:
    return ", ".join(names) or "nothing"


def task_parameters() -> str:
    """The page on task parameters with up-to-date tables."""
    page = TASK_PARAMETERS.read_text(encoding="utf-8")
    honoured = [
        f"| `{parameter.name}` | {_target(parameter)} | {parameter.meaning} |" for parameter in HONOURED.values()
    ]
    silent = [f"| `{name}` | {reason} |" for name, reason in WITHOUT_EFFECT.items()]
    refused = [f"| `{name}` | {reason} | {remedy} |" for name, (reason, remedy) in REFUSED.items()]
    page = _with_table(page, "honoured", ["| parameter | becomes | meaning |", "|---|---|---|", *honoured])
    page = _with_table(page, "without effect", ["| parameter | why nothing depends on it |", "|---|---|", *silent])
    return _with_table(page, "refused", ["| parameter | why | instead |", "|---|---|---|", *refused])


def task_verbs() -> str:
    """The page on task verbs with up-to-date tables."""
    page = TASK_VERBS.read_text(encoding="utf-8")
    verbs = [f"| `{verb}` | {meaning} |" for verb, meaning in MEANINGS.items()]
    page = _with_table(page, "verbs", ["| verb | what it does |", "|---|---|", *verbs])
    states = [
        f"| {state} | {' | '.join('yes' if verb in allowed else '' for verb in VERBS)} |"
        for state, allowed in ALLOWED.items()
    ]
    page = _with_table(page, "states", [f"| state | {' | '.join(VERBS)} |", "|---" * (len(VERBS) + 1) + "|", *states])
    return _with_table(page, "retry", [", ".join(f"`{verb}`" for verb in RETRY_PARAMETERS) + "."])


def _target(parameter: Parameter) -> str:
    if parameter.kind == "token":
        return f"split rule `{parameter.target}`"
    return f"column `{parameter.target}`" if parameter.kind == "column" else parameter.target


def defaults() -> str:
    """Every key of the catalogue with its default."""
    lines = [f"{entry.key}: {_plain(entry.default)}" for entry in shipped_catalogue()]
    return "\n".join(["# Made by `make reference` from config/gdpconfig.yaml: every key with its default.", *lines, ""])


def _plain(value: object) -> str:
    return yaml.safe_dump(value, default_flow_style=True).removesuffix("...\n").strip()


SOURCES_HEAD = """\
# Requirements on each source of a snapshot. A source over its limit makes the rules that need it answer "unknown";
# the cycle and every decision say so. As shipped (made by `make reference`) these are the sources' own requirements
# (broker/snapshot/sources/); they also apply to a source that is left out here.
#   max_age_s     maximum age of the newest row in seconds; left out: no limit, as the rows have no time stamps
#   may_be_empty  false: a source without rows counts as missing
#   max_shrink    maximum share of rows lost since the last good reading; above it, the last reading is kept
"""


def sources() -> str:
    """Every source of a snapshot with its requirements."""
    lines = [(f"{source.name}:", _requirements(source.limit), source) for source in GRID_SOURCES]
    names, limits = max(len(line[0]) for line in lines), max(len(line[1]) for line in lines)
    return SOURCES_HEAD + "".join(
        f"{name:{names}} {text:{limits}}  # {'for analysis only: ' if source.for_analysis else ''}{_summary(source)}\n"
        for name, text, source in lines
    )


def _requirements(limit: SourceLimit) -> str:
    settings = {
        "max_age_s": None if limit.max_age_s is None else f"{limit.max_age_s:g}",
        "may_be_empty": None if limit.may_be_empty else "false",
        "max_shrink": None if limit.max_shrink == 1.0 else f"{limit.max_shrink:g}",
    }
    return "{" + ", ".join(f"{key}: {value}" for key, value in settings.items() if value is not None) + "}"


def _summary(source: AnySource) -> str:
    return (type(source).__doc__ or "").strip().splitlines()[0].rstrip(".")


PAGES: dict[Path, Any] = {
    ARCHITECTURE: architecture,
    CRITERIA: criteria,
    DEFAULTS: defaults,
    SOURCES: sources,
    TASK_PARAMETERS: task_parameters,
    TASK_VERBS: task_verbs,
}


def main() -> None:
    """Write all generated pages and files."""
    for path, make_page in PAGES.items():
        path.write_text(make_page(), encoding="utf-8")


if __name__ == "__main__":
    main()
