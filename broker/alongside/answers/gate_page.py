"""The verdict of the gate as one self-contained HTML page, for decision makers without access."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from broker import __version__
from broker.alongside.answers.sentences import (
    CONSEQUENCES,
    CONSEQUENCES_TITLE,
    SHARES,
    SIDES,
    compared_sentences,
    consequence_cells,
    gate_cells,
    share_cells,
    verdict_sentence,
    window_sentence,
)
from broker.alongside.answers.shadow_models import Gate, Shadow

#: Most rows of a table; the JSON has all.
MOST_ROWS = 50
STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem; color: #1a1a1a }
table { border-collapse: collapse; margin: 1rem 0; width: 100% } caption { text-align: left; font-weight: 600 }
th, td { text-align: left; padding: .25rem .6rem; border-bottom: 1px solid #ccc; vertical-align: top }
.open, .closed { padding: .6rem 1rem; font-weight: 600 } .open { background: #d9f2e0 } .closed { background: #fbdcdc }
tr.fails td { background: #fbdcdc } @media print { body { margin: 0 } }
"""
HOW = (
    "Agreement is the part of PanDA's jobs that stand at a queue which the broker offers for the same chunk at that "
    "time. Its interval is Wilson's, for as many witnesses as there are tasks of equal size: the jobs of one task "
    "share their rules, so that many jobs of few tasks prove little. What the broker itself placed is left out."
)

Row = Sequence[object]


def gate_page(verdict: Gate) -> str:
    """The gate's verdicts and figures as an HTML page."""
    shadow = verdict.shadow
    state = "open" if verdict.passed else "closed"
    parts = [
        f"<h1>Gate for handing over brokerage</h1><p class={state}>{escape(verdict_sentence(verdict))}</p>",
        _table(
            f"Criteria of {verdict.where}",
            ("Brokerage", "Label", "Criterion", "", "Found", "Limit", "Detail"),
            [gate_cells(one) for one in verdict.lines],
            [not one.passed for one in verdict.lines],
        ),
        "<h2>What was compared</h2>",
        _list([window_sentence(shadow), *compared_sentences(shadow)]),
        f"<p>{escape(HOW)}</p>",
        _differences(shadow),
        "<h2>What it means</h2>",
        _table(CONSEQUENCES_TITLE, CONSEQUENCES, [consequence_cells(one) for one in shadow.consequences]),
        _table("What shares get", SHARES, [share_cells(one) for one in shadow.share_consequences]),
        _explained(verdict),
        f"<footer>gridbroker {escape(__version__)}, {shadow.until:%Y-%m-%d %H:%M} UTC</footer>",
    ]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Gate: {state}</title><style>{STYLE}</style></head><body>\n" + "\n".join(parts) + "\n</body></html>\n"
    )


def _differences(shadow: Shadow) -> str:
    rules: list[Row] = [
        (one.brokerage, SIDES[one.side], one.code, one.jobs, one.waits, one.tasks, ", ".join(one.queues))
        for one in shadow.rules
    ]
    queues: list[Row] = [
        (one.brokerage, one.queue, one.panda_jobs, f"{one.our_jobs:,.1f}", f"{one.by_chance:,.1f}", one.main_code or "")
        for one in sorted(shadow.queues, key=lambda one: -abs(one.our_jobs - one.panda_jobs))
    ]
    return (
        "<h2>Differences</h2>"
        + _table(
            "By the rule that made them", ("Brokerage", "Difference", "Rule", "Jobs", "Waits", "Tasks", "Queues"), rules
        )
        + _table(
            "By queue, largest difference first",
            ("Brokerage", "Queue", "PanDA's jobs", "Ours", "By chance ±", "Refused most for"),
            queues,
        )
    )


def _explained(verdict: Gate) -> str:
    rows: list[Row] = [
        ("rule" if one.queue is None else "queue", one.rule or one.queue, one.brokerage or "all", one.because)
        for one in verdict.gate.explained
    ]
    return _table("Differences that are explained", ("What", "Name", "Brokerage", "Because"), rows) if rows else ""


def _table(caption: str, headings: Sequence[str], rows: Sequence[Row], marked: Sequence[bool] = ()) -> str:
    head = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in headings)
    lines = []
    for index, row in enumerate(rows[:MOST_ROWS]):
        kind = ' class="fails"' if index < len(marked) and marked[index] else ""
        lines.append(f"<tr{kind}>" + "".join(f"<td>{escape(_cell(cell))}</td>" for cell in row) + "</tr>")
    more = f" ({MOST_ROWS} of {len(rows)})" if len(rows) > MOST_ROWS else ""
    body = "\n".join(lines) or f'<tr><td colspan="{len(headings)}">none</td></tr>'
    title = escape(caption + more)
    return f"<table><caption>{title}</caption><thead><tr>{head}</tr></thead><tbody>\n{body}\n</tbody></table>"


def _cell(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)


def _list(lines: Iterable[str]) -> str:
    return "<ul>" + "".join(f"<li>{escape(line)}</li>" for line in lines) + "</ul>"
