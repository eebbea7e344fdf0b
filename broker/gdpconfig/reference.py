"""The reference page of the tuning keys, generated from the catalogue.

``make reference`` regenerates it; a test compares the two.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from broker.gdpconfig.catalogue import Catalogue, KeyEntry, Value

_HEAD = """\
# Tuning keys (gdpconfig)

Generated from `config/gdpconfig.yaml` with `make reference`; change the catalogue, not this page.
How to look at values and change them: [Tune the broker](../how-to/tune.md).

- **Scope**: *VO atlas* keys are read for that VO whatever the task's; *VO of the task*; *any VO*: the first by name.
  A VO's own row goes before a row without a VO.
- `<gshare>` is the name of a global share, `<label>` a production source label such as `managed`. The longest name that
  is set wins; what it falls back to is said with the default.
- A row of the wrong type or out of range is reported, and the row's last good value stays in force.
"""


def render_reference(catalogue: Catalogue) -> str:
    """The page as Markdown, one section per component, in the order of the catalogue."""
    components = dict.fromkeys(entry.component for entry in catalogue)
    sections = (_section(component, [e for e in catalogue if e.component == component]) for component in components)
    return "\n".join([_HEAD, *sections])


def default_in_words(entry: KeyEntry) -> str:
    """The default of a key in words, with the fallbacks of a family."""
    text = shown(entry.default)
    if entry.zero_means_default:
        text += " (also for 0)"
    names = [entry.pattern.rsplit("_<", count)[0] for count in range(1, len(entry.suffixes) + 1)]
    shorter = [name for name in names if name != entry.key or entry.bare]
    return f"{', else '.join([*shorter, text])}" if shorter else text


def scope_in_words(entry: KeyEntry) -> str:
    """The VO whose rows count for the key, in words for the reference page."""
    return {"task": "VO of the task", "any": "any VO"}.get(entry.scope, f"VO {entry.scope}")


def shown(value: Value | None) -> str:
    """A value as an operator would type it."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return "no limit" if math.isinf(value) else f"{value:.17g}" if float(f"{value:g}") != value else f"{value:g}"
    return str(value)


def _section(component: str, entries: Iterable[KeyEntry]) -> str:
    parts = [f"## {component}\n"]
    parts.extend(_entry(entry) for entry in entries)
    return "\n".join(parts)


def _entry(entry: KeyEntry) -> str:
    readers = "; ".join(
        f"{where}: {', '.join(f'`{code}`' for code in codes)}" for where, codes in entry.read_by.items()
    )
    rows = [
        ("type", entry.type.words),
        ("unit", entry.unit),
        ("default", default_in_words(entry).replace("<", "&lt;")),
        ("range", entry.accepted_range or "any"),
        ("scope", scope_in_words(entry)),
        ("row", f"app `{entry.app}`, component `{entry.component}`" + _stored_as(entry)),
        ("read by", readers),
    ]
    table = "\n".join(f"| {name} | {text} |" for name, text in rows)
    return f"### `{entry.pattern}`\n\n{entry.meaning}\n\n| | |\n|---|---|\n{table}\n"


def _stored_as(entry: KeyEntry) -> str:
    return f", key `{entry.stored_as}`" if entry.stored_as else ""
