"""The gate on PanDA's own tables: each criterion on both sides of its limit."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import timedelta
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from broker import resources
from broker.alongside.answers.gate import fall_backs, gate, gate_file
from broker.alongside.answers.gate_page import gate_page
from broker.alongside.answers.shadow_models import Gate, GateLine
from broker.alongside.model.gate_file import GateFile, GateFileError, Limits, read_gate
from broker.alongside.statements.plugin_calls import Call, CallCount
from broker.errors import GATE_CLOSED
from broker.store.connection.database import Database
from broker.store.query_context import QueryContext
from broker.store.schema import migrate
from tests.alongside import planted
from tests.alongside.conftest import READ
from tests.alongside.planted import NOW, RECORDED, PlantedJobs
from tests.cli.commands import Command, runner

DAY, HOUR = timedelta(days=1), timedelta(hours=1)
LOOSE = Limits(chunks=1, agreement=0, queue_share=1, rule_share=1, fall_backs=1)
KNOWN = {"brokerage": ("production_job", "analysis_job"), "profile": ("panda", "seed")}


@pytest.fixture
def database(panda: Database, least: Callable[..., Database]) -> Database:
    broker_database = least(*READ)
    migrate.upgrade(broker_database)
    planted.plant_cycles(broker_database)
    return broker_database


def criteria(limits: Limits = LOOSE, **changed: Any) -> GateFile:
    fields: dict[str, Any] = {"days": 1, "brokerages": {"production_job": {"labels": ["managed"]}}, "limits": limits}
    return GateFile.model_validate({**fields, **changed})


def judge(database: Database, gate_settings: GateFile, problems: tuple[str, ...] = ()) -> Gate:
    with database.read_snapshot() as connection:
        return gate(QueryContext(connection, database.names, NOW), gate_settings, "gate.yaml", problems)


def line(result: Gate, criterion: str) -> GateLine:
    (gate_line,) = [gate_line for gate_line in result.lines if gate_line.criterion == criterion]
    return gate_line


@pytest.mark.parametrize(
    ("criterion", "limits", "passed"),
    [
        ("chunks", {"chunks": 20}, True),
        ("chunks", {"chunks": 21}, False),
        # 19 of 20 tasks agree: Wilson from 0.7639 to 0.9911
        ("agreement", {"agreement": 0.763}, True),
        ("agreement", {"agreement": 0.764}, False),
        ("rule_share", {"rule_share": 0.05}, True),
        ("rule_share", {"rule_share": 0.049}, False),
        ("queue_share", {"queue_share": 0.05}, True),
        ("queue_share", {"queue_share": 0.049}, False),
    ],
)
def test_each_limit_passes_and_fails(
    panda: Database, database: Database, criterion: str, limits: dict[str, float], passed: bool
) -> None:
    planted.plant_share(panda, database, 20, 1, at=NOW - HOUR)
    result = judge(database, criteria(LOOSE.model_copy(update=limits)))
    assert line(result, criterion).passed is passed is result.passed, result.lines
    assert [gate_line.criterion for gate_line in result.lines if not gate_line.passed] == (
        [] if passed else [criterion]
    )


def test_an_explained_difference_does_not_count(panda: Database, database: Database) -> None:
    planted.plant_share(panda, database, 20, 1, at=NOW - HOUR)
    strict = LOOSE.model_copy(update={"rule_share": 0.0, "queue_share": 0.0})
    explanations = [
        {"rule": "dest_blacklisted", "because": "r"},
        {"queue": "C", "because": "q"},
        {"queue": "A", "because": "q"},
    ]
    assert judge(database, criteria(strict, explained=explanations)).passed
    explanations_of_other = [{**explanation, "brokerage": "analysis_job"} for explanation in explanations]
    result = judge(database, criteria(strict, explained=explanations_of_other))
    assert not line(result, "rule_share").passed and not line(result, "queue_share").passed
    assert "dest_blacklisted (panda_only) 5.0 %" in line(result, "rule_share").detail
    assert "1 explained" in line(judge(database, criteria(explained=explanations)), "rule_share").detail


@pytest.mark.parametrize(("days", "passed"), [(2, True), (3, False)])
def test_days_covered(panda: Database, database: Database, days: int, passed: bool) -> None:
    planted.plant_share(panda, database, 2, 0, at=NOW - HOUR)
    planted.plant_share(panda, database, 2, 0, at=NOW - DAY - HOUR, first=50)
    result = judge(database, criteria(days=days))
    assert (line(result, "days").value, line(result, "days").passed) == (2, passed)


@pytest.mark.parametrize(("profile", "passed"), [("panda", True), ("seed", False)])
def test_the_profile_that_decided(panda: Database, database: Database, profile: str, passed: bool) -> None:
    planted.plant_share(panda, database, 2, 0, at=NOW - HOUR)
    result = judge(database, criteria(profile=profile))
    assert line(result, "profile").passed is passed is result.passed
    assert "panda" in line(result, "profile").detail


@pytest.mark.parametrize(
    ("decided", "lost", "passed"), [(99, 1, True), (98, 2, False), (0, 0, True), (0, 1, False), (1, 0, True)]
)
def test_fall_backs(decided: int, lost: int, passed: bool) -> None:
    calls = [
        CallCount(NOW, Call("production_job", "decided", "brokered"), decided),
        CallCount(NOW, Call("production_job", "fell_back", "timeout"), lost),
        CallCount(NOW, Call("analysis_job", "fell_back", "timeout"), 500),
    ]
    gate_line = fall_backs("production_job", Limits(fall_backs=0.01), [count for count in calls if count.calls])
    assert gate_line.passed is passed
    assert gate_line.value == (lost / (decided + lost) if decided + lost else None)


@pytest.mark.parametrize(
    ("doctor", "problems", "passed"), [("clean", (), True), ("clean", ("right: no",), False), ("ignored", ("x",), True)]
)
def test_doctor(panda: Database, database: Database, doctor: str, problems: tuple[str, ...], passed: bool) -> None:
    planted.plant_share(panda, database, 2, 0, at=NOW - HOUR)
    result = judge(database, criteria(doctor=doctor), problems)
    assert result.passed is passed
    if doctor == "clean":
        assert line(result, "doctor").value == len(problems)


def test_labels_are_judged_separately(panda: Database, database: Database) -> None:
    planted.plant_share(panda, database, 20, 0, at=NOW - HOUR)
    planted.plant_share(panda, database, 20, 20, at=NOW - 2 * HOUR, label="test", first=50)
    strict = LOOSE.model_copy(update={"agreement": 0.8})
    all_labels = judge(database, criteria(strict, brokerages={"production_job": {}}))
    assert [
        (gate_line.label, gate_line.passed) for gate_line in all_labels.lines if gate_line.criterion == "agreement"
    ] == [
        ("managed", True),
        ("test", False),
    ]
    assert judge(database, criteria(strict)).passed
    limits_of_test_label = {"production_job": {"labels": ["test"], "limits": {"agreement": 0.0}}}
    assert judge(database, criteria(strict, brokerages=limits_of_test_label)).passed


def test_without_compared_jobs_no_comparison_passes(database: Database) -> None:
    result = judge(database, criteria())
    assert not result.passed
    assert {gate_line.criterion for gate_line in result.lines if gate_line.passed} == {"fall_backs", "doctor"}
    any_label = judge(database, criteria(brokerages={"production_job": {}}))
    assert [(gate_line.criterion, gate_line.passed) for gate_line in any_label.lines] == [
        ("chunks", False),
        ("fall_backs", True),
        ("doctor", True),
    ]


GOOD = "brokerages:\n  production_job: {labels: [managed]}\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (GOOD + "dais: 3\n", "line 3, dais: is not known here; did you mean days?"),
        (GOOD + "days: none\n", "line 3, days: 'none' is no whole number"),
        (GOOD + "days: 0\n", "line 3, days: 0 is less than 1"),
        (GOOD + "confidence: 1\n", "line 3, confidence: 1 is not less than 1"),
        (GOOD + "limits:\n  chunks: 3\n  agreement: 95\n", "line 5, limits.agreement: 95 is more than 1"),
        (GOOD + "limits:\n  agrement: 0.9\n", "line 4, limits.agrement: is not known here; did you mean agreement?"),
        (GOOD + "limits: {queue_share: .nan}\n", "line 3, limits.queue_share: nan is no number"),
        (GOOD + "profile: pandas\n", "line 3, profile: there is no profile 'pandas'; did you mean panda?"),
        (GOOD + "doctor: maybe\n", "line 3, doctor: 'maybe' is none of 'clean' or 'ignored'"),
        (GOOD + "explained:\n- {rule: x}\n", "line 4, explained.0.because: is missing"),
        (GOOD + "explained:\n- {because: x}\n", "line 4, explained.0: names either a rule or a queue"),
        (GOOD + "explained:\n- {rule: a, queue: b, because: x}\n", "explained.0: names either a rule or a queue"),
        (
            GOOD + "explained:\n- {rule: a, brokerage: analysis, because: x}\n",
            "line 4, explained.0.brokerage: there is no brokerage 'analysis'; did you mean analysis_job?",
        ),
        (
            "brokerages:\n  production_jobs: {}\n",
            "line 2, brokerages.production_jobs: there is no brokerage 'production_jobs'; did you mean production_job?",
        ),
        (
            "brokerages:\n  production_job:\n    label: [a]\n",
            "line 3, brokerages.production_job.label: is not known here; did you mean labels?",
        ),
        ("brokerages: {}\n", "line 1, brokerages: has fewer than 1 entries"),
        ("", "line 1, brokerages: is missing"),
        ("a: [\n", "no YAML"),
        ("[1]\n", "line 1, the whole file: [1] is no mapping"),
    ],
)
def test_an_invalid_gate_file_is_refused_with_line_and_field(text: str, message: str) -> None:
    with pytest.raises(GateFileError) as refused:
        read_gate(text, "gate.yaml", KNOWN)
    assert message in str(refused.value) and "gate.yaml" in str(refused.value)


def test_the_shipped_file_has_every_field() -> None:
    shipped, path = gate_file(None, None)
    assert path == str(resources.path("config/gate.yaml"))
    assert set(shipped.brokerages) == {"production_job", "analysis_job"}
    assert (
        shipped.brokerages["analysis_job"].limits.chunks == 300
        and shipped.brokerages["production_job"].limits.chunks == 500
    )
    text = Path(path).read_text(encoding="utf-8")
    for name in [*GateFile.model_fields, *Limits.model_fields]:
        assert re.search(rf"^ *{name}:", text, re.MULTILINE), name
    # the entries that are commented out are valid too
    read_gate(text.replace("explained: []\n", "explained:\n").replace("# - {", "- {"), path, KNOWN)


class Page(HTMLParser):
    """The text of a page, and everything it loads from elsewhere."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.loaded += [value or "" for name, value in attrs if name in ("src", "href")]
        self.loaded += [tag] if tag in ("script", "link", "img") else []

    def handle_data(self, data: str) -> None:
        self.text += data


def test_the_page_is_self_contained_and_escaped(panda: Database, database: Database) -> None:
    planted.plant(panda, [PlantedJobs(1, "<b>A")])
    planted.record(database, RECORDED, NOW - 2 * HOUR, [planted.decision_for(1, "B")])
    result = judge(database, criteria(explained=[{"queue": "X&Y", "because": "<i>why</i>"}]))
    text = gate_page(result)
    page = Page(text)
    assert page.loaded == []
    assert "the gate is open: all" in page.text and "<b>A" in page.text and "<b>" not in text
    assert "X&Y" in page.text and "<i>why</i>" in page.text
    for words in ("What it means", "By the rule that made them", "decided by profile panda", "by chance alone"):
        assert words in page.text, words
    assert 'class="fails"' in gate_page(judge(database, criteria(LOOSE.model_copy(update={"chunks": 2}))))


@pytest.fixture
def broker(database: Database, capsys: pytest.CaptureFixture[str]) -> Command:
    return runner(capsys, "--db", database.url)


def test_the_command_opens_and_closes_the_gate(
    panda: Database, database: Database, broker: Command, tmp_path: Path
) -> None:
    planted.plant_share(panda, database, 20, 1, at=NOW - HOUR)
    file, page = tmp_path / "gate.yaml", tmp_path / "gate.html"
    text = (
        "doctor: ignored\ndays: 1\n"
        + GOOD
        + "limits: {chunks: 20, agreement: 0.7, queue_share: 1, rule_share: LIMIT}\n"
    )
    file.write_text(text.replace("LIMIT", "0.05"), encoding="utf-8")
    arguments = ("shadow", "--gate", str(file), "--at", NOW.isoformat())
    open_result = broker(*arguments, "--html", str(page))
    assert open_result.status == 0, open_result.err
    assert "the gate is open: all 6 criteria hold" in open_result.out
    assert "the gate is open" in page.read_text(encoding="utf-8")
    file.write_text(text.replace("LIMIT", "0.04"), encoding="utf-8")
    closed_result = broker(*arguments, "--json")
    assert closed_result.status == GATE_CLOSED == 6
    document = json.loads(closed_result.out)
    assert document["passed"] is False and document["shadow"]["brokerages"][0]["agreed_jobs"] == 19
    assert [gate_line["criterion"] for gate_line in document["lines"] if not gate_line["passed"]] == ["rule_share"]
    assert "FAILS" in broker(*arguments).out


def test_invalid_arguments_of_the_command_are_refused(broker: Command, tmp_path: Path) -> None:
    file = tmp_path / "gate.yaml"
    file.write_text("doctor: ignored\n" + GOOD, encoding="utf-8")
    assert broker("shadow", "--html", str(tmp_path / "x.html")).status == 2
    assert broker("shadow", "--gate", str(file), "--last", "24h").status == 2
    limited = broker("shadow", "--gate", str(file), "--limit", "20")
    assert limited.status == 2 and "--limit does not go with --gate" in limited.err
    assert broker("shadow", "--gate", str(tmp_path / "none.yaml")).status == 4
    unwritable = broker("shadow", "--gate", str(file), "--html", str(tmp_path / "no" / "x.html"))
    assert unwritable.status == 1 and "no/x.html" in unwritable.err
    file.write_text("dais: 1\n", encoding="utf-8")
    refused = broker("shadow", "--gate", str(file))
    assert refused.status == 2 and "did you mean days" in refused.err
