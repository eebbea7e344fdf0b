"""The gate: each criterion on both sides of its limit, on PanDA's own tables."""

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
from broker.store.query_context import Asking
from broker.store.schema import migrate
from tests.alongside import planted
from tests.alongside.conftest import READ
from tests.alongside.planted import NOW, RECORDED, Planted
from tests.cli.commands import Command, runner

DAY, HOUR = timedelta(days=1), timedelta(hours=1)
LOOSE = Limits(chunks=1, agreement=0, queue_share=1, rule_share=1, fall_backs=1)
KNOWN = {"brokerage": ("production_job", "analysis_job"), "profile": ("panda", "seed")}


@pytest.fixture
def database(panda: Database, least: Callable[..., Database]) -> Database:
    found = least(*READ)
    migrate.upgrade(found)
    planted.plant_cycles(found)
    return found


def criteria(limits: Limits = LOOSE, **changed: Any) -> GateFile:
    given: dict[str, Any] = {"days": 1, "brokerages": {"production_job": {"labels": ["managed"]}}, "limits": limits}
    return GateFile.model_validate({**given, **changed})


def judged(database: Database, wanted: GateFile, problems: tuple[str, ...] = ()) -> Gate:
    with database.read_snapshot() as connection:
        return gate(Asking(connection, database.names, NOW), wanted, "gate.yaml", problems)


def line(found: Gate, criterion: str) -> GateLine:
    (one,) = [one for one in found.lines if one.criterion == criterion]
    return one


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
def test_limits_of_what_is_compared(
    panda: Database, database: Database, criterion: str, limits: dict[str, float], passed: bool
) -> None:
    planted.plant_share(panda, database, 20, 1, at=NOW - HOUR)
    found = judged(database, criteria(LOOSE.model_copy(update=limits)))
    assert line(found, criterion).passed is passed is found.passed, found.lines
    assert [one.criterion for one in found.lines if not one.passed] == ([] if passed else [criterion])


def test_a_difference_that_is_explained_does_not_count(panda: Database, database: Database) -> None:
    planted.plant_share(panda, database, 20, 1, at=NOW - HOUR)
    strict = LOOSE.model_copy(update={"rule_share": 0.0, "queue_share": 0.0})
    open_ = [
        {"rule": "dest_blacklisted", "because": "r"},
        {"queue": "C", "because": "q"},
        {"queue": "A", "because": "q"},
    ]
    assert judged(database, criteria(strict, explained=open_)).passed
    other = [{**one, "brokerage": "analysis_job"} for one in open_]
    found = judged(database, criteria(strict, explained=other))
    assert not line(found, "rule_share").passed and not line(found, "queue_share").passed
    assert "dest_blacklisted (panda_only) 5.0 %" in line(found, "rule_share").detail
    assert "1 explained" in line(judged(database, criteria(explained=open_)), "rule_share").detail


@pytest.mark.parametrize(("days", "passed"), [(2, True), (3, False)])
def test_days_covered(panda: Database, database: Database, days: int, passed: bool) -> None:
    planted.plant_share(panda, database, 2, 0, at=NOW - HOUR)
    planted.plant_share(panda, database, 2, 0, at=NOW - DAY - HOUR, first=50)
    found = judged(database, criteria(days=days))
    assert (line(found, "days").value, line(found, "days").passed) == (2, passed)


@pytest.mark.parametrize(("profile", "passed"), [("panda", True), ("seed", False)])
def test_the_profile_that_decided(panda: Database, database: Database, profile: str, passed: bool) -> None:
    planted.plant_share(panda, database, 2, 0, at=NOW - HOUR)
    found = judged(database, criteria(profile=profile))
    assert line(found, "profile").passed is passed is found.passed
    assert "panda" in line(found, "profile").detail


@pytest.mark.parametrize(
    ("decided", "lost", "passed"), [(99, 1, True), (98, 2, False), (0, 0, True), (0, 1, False), (1, 0, True)]
)
def test_fall_backs(decided: int, lost: int, passed: bool) -> None:
    calls = [
        CallCount(NOW, Call("production_job", "decided", "brokered"), decided),
        CallCount(NOW, Call("production_job", "fell_back", "timeout"), lost),
        CallCount(NOW, Call("analysis_job", "fell_back", "timeout"), 500),
    ]
    found = fall_backs("production_job", Limits(fall_backs=0.01), [one for one in calls if one.calls])
    assert found.passed is passed
    assert found.value == (lost / (decided + lost) if decided + lost else None)


@pytest.mark.parametrize(
    ("doctor", "problems", "passed"), [("clean", (), True), ("clean", ("right: no",), False), ("ignored", ("x",), True)]
)
def test_doctor(panda: Database, database: Database, doctor: str, problems: tuple[str, ...], passed: bool) -> None:
    planted.plant_share(panda, database, 2, 0, at=NOW - HOUR)
    found = judged(database, criteria(doctor=doctor), problems)
    assert found.passed is passed
    if doctor == "clean":
        assert line(found, "doctor").value == len(problems)


def test_labels_are_judged_one_by_one(panda: Database, database: Database) -> None:
    planted.plant_share(panda, database, 20, 0, at=NOW - HOUR)
    planted.plant_share(panda, database, 20, 20, at=NOW - 2 * HOUR, label="test", first=50)
    strict = LOOSE.model_copy(update={"agreement": 0.8})
    every = judged(database, criteria(strict, brokerages={"production_job": {}}))
    assert [(one.label, one.passed) for one in every.lines if one.criterion == "agreement"] == [
        ("managed", True),
        ("test", False),
    ]
    assert judged(database, criteria(strict)).passed
    own = {"production_job": {"labels": ["test"], "limits": {"agreement": 0.0}}}
    assert judged(database, criteria(strict, brokerages=own)).passed


def test_nothing_compared_passes_nothing(database: Database) -> None:
    found = judged(database, criteria())
    assert not found.passed
    assert {one.criterion for one in found.lines if one.passed} == {"fall_backs", "doctor"}
    none = judged(database, criteria(brokerages={"production_job": {}}))
    assert [(one.criterion, one.passed) for one in none.lines] == [
        ("chunks", False),
        ("fall_backs", True),
        ("doctor", True),
    ]


GOOD = "brokerages:\n  production_job: {labels: [managed]}\n"


@pytest.mark.parametrize(
    ("text", "words"),
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
def test_a_bad_file_is_refused_where_it_is_wrong(text: str, words: str) -> None:
    with pytest.raises(GateFileError) as refused:
        read_gate(text, "gate.yaml", KNOWN)
    assert words in str(refused.value) and "gate.yaml" in str(refused.value)


def test_the_shipped_file_has_every_field() -> None:
    found, where = gate_file(None, None)
    assert where == str(resources.path("config/gate.yaml"))
    assert set(found.brokerages) == {"production_job", "analysis_job"}
    assert (
        found.brokerages["analysis_job"].limits.chunks == 300
        and found.brokerages["production_job"].limits.chunks == 500
    )
    text = Path(where).read_text(encoding="utf-8")
    for name in [*GateFile.model_fields, *Limits.model_fields]:
        assert re.search(rf"^ *{name}:", text, re.MULTILINE), name
    # what is commented out is good as well
    read_gate(text.replace("explained: []\n", "explained:\n").replace("# - {", "- {"), where, KNOWN)


class Page(HTMLParser):
    """What a page loads from elsewhere, and its text."""

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


def test_the_page_needs_nothing_else_and_escapes(panda: Database, database: Database) -> None:
    planted.plant(panda, [Planted(1, "<b>A")])
    planted.record(database, RECORDED, NOW - 2 * HOUR, [planted.decided(1, "B")])
    found = judged(database, criteria(explained=[{"queue": "X&Y", "because": "<i>why</i>"}]))
    text = gate_page(found)
    page = Page(text)
    assert page.loaded == []
    assert "the gate is open: all" in page.text and "<b>A" in page.text and "<b>" not in text
    assert "X&Y" in page.text and "<i>why</i>" in page.text
    for words in ("What it means", "By the rule that made them", "decided by profile panda", "by chance alone"):
        assert words in page.text, words
    assert 'class="fails"' in gate_page(judged(database, criteria(LOOSE.model_copy(update={"chunks": 2}))))


@pytest.fixture
def broker(database: Database, capsys: pytest.CaptureFixture[str]) -> Command:
    return runner(capsys, "--db", database.url)


def test_the_command(panda: Database, database: Database, broker: Command, tmp_path: Path) -> None:
    planted.plant_share(panda, database, 20, 1, at=NOW - HOUR)
    file, page = tmp_path / "gate.yaml", tmp_path / "gate.html"
    text = (
        "doctor: ignored\ndays: 1\n"
        + GOOD
        + "limits: {chunks: 20, agreement: 0.7, queue_share: 1, rule_share: LIMIT}\n"
    )
    file.write_text(text.replace("LIMIT", "0.05"), encoding="utf-8")
    given = ("shadow", "--gate", str(file), "--at", NOW.isoformat())
    passed = broker(*given, "--html", str(page))
    assert passed.status == 0, passed.err
    assert "the gate is open: all 6 criteria hold" in passed.out
    assert "the gate is open" in page.read_text(encoding="utf-8")
    file.write_text(text.replace("LIMIT", "0.04"), encoding="utf-8")
    closed = broker(*given, "--json")
    assert closed.status == GATE_CLOSED == 6
    document = json.loads(closed.out)
    assert document["passed"] is False and document["shadow"]["brokerages"][0]["agreed_jobs"] == 19
    assert [one["criterion"] for one in document["lines"] if not one["passed"]] == ["rule_share"]
    assert "FAILS" in broker(*given).out


def test_wrong_uses_of_the_command(broker: Command, tmp_path: Path) -> None:
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
