"""Answers from forecasts: looked up with their age, unknown when old, and judged by clusters."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa

from broker.domain.arrays import texts
from broker.forecasts.answers.check import forecast_check
from broker.forecasts.answers.forecasts import (
    forecast_list,
    kind_start,
    queue_forecasts,
    submitted_start,
    task_start,
    waiting_start,
)
from broker.forecasts.answers.sooner import task_forecast
from broker.forecasts.model.judging import JudgedForecasts, clustered_error, verdicts
from broker.forecasts.model.subjects import together
from broker.store.connection.database import Database
from broker.store.query_context import NothingFound, QueryContext
from broker.store.scenarios.load_dump import load
from broker.store.scenarios.scenario_file import Scenario

NOW = datetime(2026, 8, 1, 12, tzinfo=UTC)
LINE = together("Q", "A")


def replace_forecasts(database: Database, *rows: dict[str, Any]) -> None:
    """Replace the stored forecasts."""
    plain = {
        "kind": "queue", "subject": LINE, "cell": LINE, "situation": "waiting", "made_at": NOW, "p10_s": 60.0,
        "p50_s": 600.0, "p90_s": 6000.0, "horizon_s": 172_800.0, "n": 120, "usual_s": 900.0, "unknown": "",
        "status": "online", "status_since": NOW, "is_newest": True, "is_judged": False, "outcome": None,
        "waited_s": None, "resolved_at": None, "rollout_s": None,
    }  # fmt: skip
    statement = "INSERT INTO broker.forecasts ({}) VALUES ({})".format(
        ", ".join(plain), ", ".join(f":{name}" for name in plain)
    )
    with database.begin() as connection:
        connection.execute(sa.text("DELETE FROM broker.forecasts"))
        if rows:
            connection.execute(sa.text(statement), [plain | row for row in rows])


def ask(database: Database, question: Any, *arguments: Any, minutes: float = 5.0, **options: Any) -> Any:
    with database.read_snapshot() as connection:
        return question(
            QueryContext(connection, database.names, NOW + timedelta(minutes=minutes), None), *arguments, **options
        )


def test_a_line_has_its_age_and_a_sentence(shared_database: Database) -> None:
    replace_forecasts(
        shared_database, {}, {"subject": together("Q", "B"), "p90_s": math.inf}, {"subject": together("Q2", "A")}
    )
    first, second = ask(shared_database, queue_forecasts, "Q").lines
    assert (first.queue, first.share, first.age_s, first.basis, first.n) == ("Q", "A", 300.0, "history", 120)
    assert (first.p10_s, first.p50_s, first.p90_s) == (60.0, 600.0, 6000.0)
    assert first.sentence == "starts in about 10 min; with 80 % between 60 s and 1.67 h from then; told 5 min ago"
    assert second.p90_s is None and "more than 48 h" in second.sentence
    assert [line.subject for line in ask(shared_database, forecast_list, "queue").lines] == [
        LINE,
        second.subject,
        "Q2 · A",
    ]


def test_an_old_forecast_is_unknown_and_so_is_one_without_enough_cases(shared_database: Database) -> None:
    replace_forecasts(shared_database, {}, {"subject": together("R", "A"), "p50_s": None, "unknown": "3 of 100"})
    (old,) = ask(shared_database, queue_forecasts, "Q", minutes=26).lines
    assert old.p50_s is None and old.unknown == "the last one is 26 min old; see the agent forecasts"
    (few,) = ask(shared_database, queue_forecasts, "R").lines
    assert few.p50_s is None and few.sentence == "not known: 3 of 100"


def test_a_subject_without_forecasts_is_unknown(shared_database: Database) -> None:
    replace_forecasts(shared_database)
    assert ask(shared_database, task_start, 1).unknown.startswith("nothing was told of it")
    assert ask(shared_database, kind_start, "A", "SCORE").made_at is None
    with pytest.raises(NothingFound):
        ask(shared_database, queue_forecasts, "Q")


def test_a_task_before_submission_uses_the_forecast_of_its_kind(shared_database: Database) -> None:
    task = {"jeditaskid": 7, "taskname": "t", "status": "defined", "gshare": "A", "resource_type": "SCORE"}
    load(shared_database, Scenario(NOW, {"jedi_tasks": [task]}), replace=True)
    replace_forecasts(shared_database, {"kind": "task_kind", "subject": together("A", "SCORE")})
    assert ask(shared_database, submitted_start, 7).p50_s == 600.0
    assert ask(shared_database, submitted_start, 8) is None


def test_a_task_without_decisions_has_a_forecast_and_no_remedies(shared_database: Database) -> None:
    replace_forecasts(shared_database, {"kind": "task", "subject": "7"})
    answer = ask(shared_database, task_forecast, 7)
    assert (answer.forecast.jeditaskid, answer.forecast.p50_s, answer.sooner) == (7, 600.0, ())
    assert ask(shared_database, waiting_start, 7) == answer.forecast and ask(shared_database, waiting_start, 8) is None
    with pytest.raises(NothingFound):
        ask(shared_database, task_forecast, 8)


def test_the_check_counts_starts_within_the_interval(shared_database: Database) -> None:
    waits = [30.0, 600.0, 600.0, 600.0, 600.0, 600.0, 600.0, 600.0, 600.0, 9000.0]
    rows = [
        {"subject": f"{number}", "kind": "task", "is_newest": False, "is_judged": True, "outcome": "started",
         "waited_s": wait, "made_at": NOW - timedelta(hours=number + 1)}
        for number, wait in enumerate(waits)
    ]  # fmt: skip
    gone = rows[0] | {"subject": "x", "outcome": "gone", "waited_s": 10.0}
    replace_forecasts(shared_database, *rows, gone)
    whole = ask(shared_database, forecast_check).verdicts[0]
    assert (whole.name, whole.told, whole.resolved, whole.censored) == ("all", 11, 10, 1)
    assert (whole.covered_percent, whole.below_percent, whole.above_percent) == (80.0, 10.0, 10.0)
    assert whole.low_percent is not None and whole.low_percent < 80.0 < (whole.high_percent or 0.0)
    assert ask(shared_database, forecast_check, queue="Q").verdicts == ()


def judged_forecasts(
    waited: list[float], subject: list[str], forecast: tuple[float, float, float], known: bool = True
) -> Any:
    count = len(waited)
    return JudgedForecasts(
        kind=texts(["queue"] * count),
        subject=texts(subject),
        quantiles_s=np.array([forecast] * count),
        usual_s=np.full(count, 100.0),
        waited_s=np.array(waited),
        is_known=np.full(count, known),
        horizon_s=np.full(count, 1000.0),
    )


def test_a_start_after_the_horizon_is_covered_if_it_was_forecast() -> None:
    late = [1000.0] * 4
    later_verdict = verdicts(judged_forecasts(late, list("abcd"), (10.0, 500.0, math.inf), known=False))[0]
    sooner_verdict = verdicts(judged_forecasts(late, list("abcd"), (10.0, 20.0, 30.0), known=False))[0]
    assert (later_verdict.resolved, later_verdict.covered) == (4, 1.0)
    assert (sooner_verdict.resolved, sooner_verdict.covered, sooner_verdict.above) == (4, 0.0, 1.0)


def test_the_target_coverage_is_nine_of_ten_where_p90_is_beyond_the_horizon() -> None:
    closed, later = (
        judged_forecasts([50.0] * 3, list("abc"), (10.0, 60.0, 90.0)),
        judged_forecasts([5.0], ["d"], (10.0, 60.0, math.inf)),
    )
    both = JudgedForecasts(**{name: np.concatenate([vars(closed)[name], vars(later)[name]]) for name in vars(closed)})
    figures = {verdict.name: (verdict.told, verdict.covered, verdict.meant) for verdict in verdicts(both)}
    assert figures["p90 known"] == (3, 1.0, pytest.approx(0.8)) and figures["p90 later"] == (1, 0.0, pytest.approx(0.9))
    assert figures["all"] == (4, 0.75, pytest.approx(0.825))


def test_an_open_case_counts_only_once_it_is_late() -> None:
    verdict = verdicts(judged_forecasts([20.0, 40.0], ["a", "b"], (10.0, 20.0, 30.0), known=False))[0]
    assert (verdict.resolved, verdict.censored, verdict.covered) == (0, 2, 0.0)


def test_forecasts_of_one_subject_have_a_larger_error_than_those_of_many() -> None:
    values = np.array([1.0, 1.0, 1.0, 0.0, 0.0, 1.0, 1.0, 0.0])
    apart = clustered_error(values, texts([str(number) for number in range(8)]))
    together_ = clustered_error(values, texts(list("aaabbccb")))
    assert together_ > apart > 0
    assert math.isnan(clustered_error(values, texts(["a"] * 8)))


def test_the_loss_of_the_usual_wait_itself_is_one() -> None:
    verdict = verdicts(judged_forecasts([50.0, 200.0, 400.0], list("abc"), (100.0, 100.0, 100.0)))[0]
    assert (verdict.loss_part, verdict.middle_loss_part) == (1.0, 1.0)


def test_without_any_forecast_there_is_nothing_to_judge() -> None:
    verdict = verdicts(judged_forecasts([1.0], ["a"], (math.nan, math.nan, math.nan)))[0]
    assert verdict.told == 0 and math.isnan(verdict.covered)
