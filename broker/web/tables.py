"""The table of every page: its headings, what a phone leaves out, folded rows. Pure.

Templates write the rows; the parts common to all tables are added here. ``static/tables.js`` sorts.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from markupsafe import Markup, escape

FOLDED_FROM = 25
"""Rows beyond this number are folded, if they are more than a few."""
A_FEW = 5
_ROW = re.compile(r"<tr\b([^>]*)>(.*?)</tr>", re.S)
_CELL = re.compile(r"<t([dh])\b([^>]*)>")
_KINDS = re.compile(r"(.*)\|([nh]+)", re.S)


def table(rows: str, caption: str, columns: Sequence[str], most: int = FOLDED_FROM, tools: str = "") -> Markup:
    """Return a table with its caption.

    Args:
        rows: markup of the rows; each row has one cell a column, or one across them all.
        caption: subject of the table.
        columns: headings; the suffix ``|n`` marks figures, ``|h`` what a phone leaves out, ``|nh`` both.
        most: number of rows that are shown at first.
        tools: markup next to the caption, such as a link to the list as CSV.

    Returns:
        The table; a sentence if it has no rows.
    """
    heads = [_column(heading) for heading in columns]
    body = [_row(match, number, heads, most) for number, match in enumerate(_ROW.finditer(rows))]
    total = len(body)
    if not total:
        return Markup('<p class="empty">{}: none.</p>').format(caption)
    folds = total > most + A_FEW
    if not folds:
        body = [text.replace(_MORE, "", 1) for text in body]
    unfold = ""
    if folds:
        unfold = f'<label class="chip unfold"><input type="checkbox"> show all {total:,} rows</label>'
    titles = "".join(_heading(*heading) for heading in heads)
    beside = f'<span class="tools">{tools}</span>' if tools else ""
    # the caption and headings are escaped, the rest already is markup
    return Markup(  # noqa: S704
        f'<div class="table"><div class="scroll"><table><caption>{escape(caption)}{beside}</caption>'
        f"<thead><tr>{titles}</tr></thead><tbody>{''.join(body)}</tbody></table></div>{unfold}</div>"
    )


_MORE = " data-more"


def _row(match: re.Match[str], number: int, heads: Sequence[tuple[str, str]], most: int) -> str:
    attributes, inner = match.groups()
    if "colspan" in inner:
        return f"<tr{attributes}>{inner}</tr>"
    at = -1

    def cell(cell_match: re.Match[str]) -> str:
        nonlocal at
        at += 1
        kinds = heads[at][1] if at < len(heads) else ""
        return f"<t{cell_match[1]}{_with_classes(cell_match[2], kinds)}>"

    more = _MORE if number >= most else ""
    return f"<tr{more}{attributes}>{_CELL.sub(cell, inner)}</tr>"


def _column(heading: str) -> tuple[str, str]:
    match = _KINDS.fullmatch(heading)
    return (heading, "") if match is None else (match[1], match[2])


def _heading(title: str, kinds: str) -> str:
    return f'<th scope="col"{_with_classes("", kinds)}>{escape(title)}</th>'


def _with_classes(attributes: str, kinds: str) -> str:
    """Return attributes with the classes of a kind of column added."""
    missing = [kind for kind in kinds if f'class="{kind}"' not in attributes]
    if not missing:
        return attributes
    if 'class="' in attributes:
        return attributes.replace('class="', f'class="{" ".join(missing)} ', 1)
    return f'{attributes} class="{" ".join(missing)}"'
