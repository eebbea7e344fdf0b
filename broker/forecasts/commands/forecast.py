"""``broker forecast``: when work will start, and how good forecasts were."""

from __future__ import annotations

from typing import Annotated

import typer

from broker.cli.context import query_context
from broker.cli.output import Column, print_json, print_table, remark, say
from broker.errors import WRONG_USAGE, BrokerError
from broker.forecasts.answers.check import ForecastCheck, forecast_check
from broker.forecasts.answers.forecasts import ForecastLines, Kind, forecast_list, queue_forecasts
from broker.forecasts.answers.sooner import read_task_forecast
from broker.forecasts.model.wording import duration
from broker.store.query_context import proceed

app = typer.Typer(no_args_is_help=True, help="When work will start, and how accurate forecasts were.")


class OneOfBoth(BrokerError):
    """Both a task and a queue were named, or neither."""

    exit_status = WRONG_USAGE


@app.command("show")
def show(
    context: typer.Context,
    task: Annotated[int | None, typer.Argument(metavar="[TASK]", help="The task (jeditaskid).")] = None,
    queue: Annotated[str | None, typer.Option("--queue", help="Jobs that come to this queue now.")] = None,
    evaluate: Annotated[
        bool,
        typer.Option("--evaluate", help="Decide again with one thing changed, to show what would help; takes seconds."),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One object on stdout.")] = False,
) -> None:
    """Forecast when a task, or what comes to a queue now, will start: p10, p50, p90, and what would help."""
    if task is not None and queue is None:
        _show_task(context, task, evaluate, as_json)
    elif queue is not None and task is None:
        with query_context(context) as query:
            lines = queue_forecasts(query, queue)
        _show_lines(lines, as_json, f"Jobs that come to {queue} now")
    else:
        raise OneOfBoth("a task or --queue is needed", "broker forecast show", "name one of them")


def _show_task(context: typer.Context, task: int, evaluate: bool, as_json: bool) -> None:
    with query_context(context) as query:
        evaluation = read_task_forecast(query, task, evaluate=evaluate)
    start = evaluation(proceed)
    if as_json:
        print_json(start)
        return
    say(f"Task {task}: {start.forecast.sentence}.")
    for sentence in start.sooner:
        say(f"Sooner: {sentence}")


@app.command("list")
def list_forecasts(
    context: typer.Context,
    kind: Annotated[Kind, typer.Option("--kind", help="One of queue, task or task_kind.")] = "task_kind",
    as_json: Annotated[bool, typer.Option("--json", help="One object on stdout.")] = False,
) -> None:
    """List the newest forecasts of a kind, latest start first."""
    with query_context(context) as query:
        lines = forecast_list(query, kind)
    _show_lines(lines, as_json, f"Forecasts of kind {kind}")


def _show_lines(lines: ForecastLines, as_json: bool, title: str) -> None:
    if as_json:
        print_json(lines)
        return
    columns = ("what", "p10", "p50", "p90", Column("now", drop_order=3), Column("cases", drop_order=2),
               Column("told", drop_order=1), Column("remark", drop_order=4))  # fmt: skip
    rows = [
        (
            one.subject, *(_time(one.unknown, value) for value in (one.p10_s, one.p50_s, one.p90_s)), one.situation,
            one.n, f"{duration(one.age_s or 0.0)} ago", one.unknown or "-",
        )
        for one in lines.lines
    ]  # fmt: skip
    print_table(columns, rows, title=title)
    if not lines.lines:
        remark("nothing was told yet; see broker agents, forecasts")


def _time(unknown: str, value: float | None) -> str:
    if unknown:
        return "?"
    return "later" if value is None else duration(value)


@app.command("check")
def check(
    context: typer.Context,
    queue: Annotated[str | None, typer.Option("--queue", help="Only lines of this queue.")] = None,
    days: Annotated[float, typer.Option("--days", min=0.01, max=365, help="Days of forecasts to check.")] = 14.0,
    as_json: Annotated[bool, typer.Option("--json", help="One object on stdout.")] = False,
) -> None:
    """Check forecasts: how often the start lay between p10 and p90, and their loss over the usual wait's."""
    with query_context(context) as query:
        result = forecast_check(query, days=days, queue=queue)
    if as_json:
        print_json(result)
        return
    _show_check(result, days)


def _show_check(result: ForecastCheck, days: float) -> None:
    columns = (
        "of", "told", "resolved", "censored", "covered %", Column("meant %", drop_order=5),
        Column("95 % interval", drop_order=2), Column("below %", drop_order=4), Column("above %", drop_order=3), "loss",
        Column("of p50", drop_order=1),
    )  # fmt: skip
    rows = [
        (
            verdict.name, verdict.told, verdict.resolved, verdict.censored, _or_dash(verdict.covered_percent),
            _or_dash(verdict.meant_percent),
            "-" if verdict.low_percent is None else f"{verdict.low_percent} to {verdict.high_percent}",
            _or_dash(verdict.below_percent), _or_dash(verdict.above_percent), _or_dash(verdict.loss_part),
            _or_dash(verdict.middle_loss_part),
        )
        for verdict in result.verdicts
    ]  # fmt: skip
    print_table(
        columns, rows, title=f"Forecasts of {days:g} days: wanted within 2 % of what is meant, loss at most 0.7"
    )
    if not result.verdicts:
        remark("no forecast was told in this time")


def _or_dash(value: float | None) -> object:
    return "-" if value is None else value
