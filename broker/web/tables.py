"""The table of every page: its headings, what a phone leaves away, rows that are folded. Pure.

Templates write the rows; what is the same for all tables is put around them here. ``static/tables.js`` sorts.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from markupsafe import Markup, escape

FOLDED_FROM = 25
"""Rows beyond so many are folded, when there are some more than a few of them."""
A_FEW = 5
_ROW = re.compile(r"<tr\b([^>]*)>(.*?)</tr>", re.S)
_CELL = re.compile(r"<t([dh])\b([^>]*)>")
_KINDS = re.compile(r"(.*)\|([nh]+)", re.S)


def table(rows: str, caption: str, columns: Sequence[str], most: int = FOLDED_FROM, tools: str = "") -> Markup:
    """A table with its caption.

    Args:
        rows: markup of its rows, in which every row has a cell a column, or one across them all.
        caption: what it is of.
        columns: headings; ``|n`` behind one marks figures, ``|h`` what a phone leaves away, ``|nh`` both.
        most: so many rows are shown before the others are asked for.
        tools: markup that stands beside the caption, such as links to the same as CSV.

    Returns:
        The table; a sentence where it has no row.
    """
    heads = [_column(one) for one in columns]
    written = [_row(found, number, heads, most) for number, found in enumerate(_ROW.finditer(rows))]
    total = len(written)
    if not total:
        return Markup('<p class="empty">{}: none.</p>').format(caption)
    folds = total > most + A_FEW
    if not folds:
        written = [text.replace(_MORE, "", 1) for text in written]
    unfold = ""
    if folds:
        unfold = f'<label class="chip unfold"><input type="checkbox"> show all {total:,} rows</label>'
    titles = "".join(_heading(*one) for one in heads)
    beside = f'<span class="tools">{tools}</span>' if tools else ""
    # the caption and headings are escaped, the rest is markup already
    return Markup(  # noqa: S704
        f'<div class="table"><div class="scroll"><table><caption>{escape(caption)}{beside}</caption>'
        f"<thead><tr>{titles}</tr></thead><tbody>{''.join(written)}</tbody></table></div>{unfold}</div>"
    )


_MORE = " data-more"


def _row(found: re.Match[str], number: int, heads: Sequence[tuple[str, str]], most: int) -> str:
    attributes, inner = found.groups()
    if "colspan" in inner:
        return f"<tr{attributes}>{inner}</tr>"
    at = -1

    def cell(one: re.Match[str]) -> str:
        nonlocal at
        at += 1
        kinds = heads[at][1] if at < len(heads) else ""
        return f"<t{one[1]}{_with_classes(one[2], kinds)}>"

    more = _MORE if number >= most else ""
    return f"<tr{more}{attributes}>{_CELL.sub(cell, inner)}</tr>"


def _column(written: str) -> tuple[str, str]:
    found = _KINDS.fullmatch(written)
    return (written, "") if found is None else (found[1], found[2])


def _heading(title: str, kinds: str) -> str:
    return f'<th scope="col"{_with_classes("", kinds)}>{escape(title)}</th>'


def _with_classes(attributes: str, kinds: str) -> str:
    """Attributes with the classes of a kind of column added."""
    wanted = [one for one in kinds if f'class="{one}"' not in attributes]
    if not wanted:
        return attributes
    if 'class="' in attributes:
        return attributes.replace('class="', f'class="{" ".join(wanted)} ', 1)
    return f'{attributes} class="{" ".join(wanted)}"'
