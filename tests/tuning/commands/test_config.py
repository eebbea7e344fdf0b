"""The commands of ``broker config``, as an operator uses them."""

from __future__ import annotations

import getpass
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pytest
import sqlalchemy as sa

from broker.cli.main import main
from broker.gdpconfig.catalogue import shipped_catalogue
from broker.store.connection.database import Database


@dataclass(frozen=True)
class Outcome:
    status: object
    out: str
    err: str

    @property
    def documents(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.splitlines()]


class Command(Protocol):
    def __call__(self, *arguments: str) -> Outcome: ...


@pytest.fixture
def config(database: Database, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    monkeypatch.setenv("LOGNAME", "operator")

    def run(*arguments: str) -> Outcome:
        with pytest.raises(SystemExit) as end:
            main(["--db", database.url, "config", *arguments])
        captured = capsys.readouterr()
        return Outcome(end.value.code, captured.out, captured.err)

    return run


def insert(database: Database, key: str, value: str, kind: str, vo: str = "atlas") -> None:
    with database.begin() as connection:
        connection.execute(
            sa.text(
                "INSERT INTO doma_panda.config (app, component, key, vo, value, type, descr) "
                "VALUES ('jedi', 'jobbroker', :key, :vo, :value, :type, '')"
            ),
            {"key": key, "vo": vo, "value": value, "type": kind},
        )


def test_list_shows_every_key(config: Command) -> None:
    result = config("list", "--json")
    assert (result.status, result.err) == (0, "")
    assert [document["key"] for document in result.documents] == [entry.pattern_or_key for entry in ENTRIES]
    assert {document["source"] for document in result.documents} == {"default"}
    table = config("list")
    assert table.status == 0
    for entry in ENTRIES:
        assert entry.pattern_or_key in table.out


@dataclass(frozen=True)
class ListedEntry:
    pattern_or_key: str


ENTRIES = [ListedEntry(entry.key if entry.bare else entry.pattern) for entry in shipped_catalogue()]


def test_set_get_history_unset(config: Command) -> None:
    result = config("set", "NQUEUED_SAT_CAP", "200", "--reason", "fast links", "--json")
    assert result.status == 0
    assert result.documents == [
        {
            "version": 2,
            "changed": [
                {
                    "component": "jobbroker",
                    "key": "NQUEUED_SAT_CAP",
                    "vo": "atlas",
                    "action": "set",
                    "old": None,
                    "new": "200",
                }
            ],
        }
    ]
    (document,) = config("get", "NQUEUED_SAT_CAP", "--json").documents
    assert (document["value"], document["default"], document["unit"], document["source"], document["vo"]) == (
        200,
        150,
        "files",
        "config",
        "atlas",
    )
    assert document["version"] == 2
    assert document["range"] == ">= 0 and <= NQUEUED_NUC_CAP_FOR_JOBS"
    assert "link_unusable" in document["read_by"]["production_job"]
    assert [d["key"] for d in config("list", "--set", "--json").documents] == ["NQUEUED_SAT_CAP"]
    unset = config("unset", "NQUEUED_SAT_CAP", "--reason", "slow again", "--editor", "bob")
    assert unset.status == 0
    assert "NQUEUED_SAT_CAP (VO atlas): 200 -> (default)" in unset.out
    assert "version 3" in unset.out
    history = config("history", "NQUEUED_SAT_CAP", "--json").documents
    assert [(d["version"], d["editor"], d["reason"], d["old"], d["new"]) for d in history] == [
        (3, "bob", "slow again", "200", None),
        (2, "operator", "fast links", None, "200"),
    ]
    assert [d["version"] for d in config("history", "--limit", "2", "--json").documents] == [3, 2]
    table = config("history").out
    assert "fast links" in table
    assert "operator" in table


def test_get_describes_the_key_in_words(config: Command) -> None:
    text = config("get", "MIN_WEIGHT_managed_Express").out
    for words in ("MIN_WEIGHT_<label>, else 0", "below_min_weight", "VO of the task", "a number in weight, >= 0"):
        assert words in text


@pytest.mark.parametrize(
    ("rows", "key", "value", "set_by"),
    [
        ([], "MIN_WEIGHT_managed_A_B", 0, None),
        ([("MIN_WEIGHT_managed", "0.5")], "MIN_WEIGHT_managed_A_B", 0.5, "MIN_WEIGHT_managed"),
        ([("MIN_WEIGHT_managed_A_B", "0.8")], "MIN_WEIGHT_managed_A_B", 0.8, "MIN_WEIGHT_managed_A_B"),
        ([("NQUEUELIMITSITE_A", "0")], "NQUEUELIMITSITE_A", 20, None),
        ([("NQUEUELIMITSITE_A", "7")], "NQUEUELIMITSITE_A", 7, "NQUEUELIMITSITE_A"),
        ([("NQUEUELIMITSITE_A", "7")], "NQUEUELIMITSITE_A_B", 20, None),
        ([("NQUEUELIMITSITE_A", "7")], "NQUEUELIMITSITE", 20, None),
    ],
)
def test_members_of_families(
    config: Command, database: Database, rows: list[tuple[str, str]], key: str, value: float, set_by: str | None
) -> None:
    for name, text in rows:
        insert(database, name, text, "float")
    (document,) = config("get", key, "--json").documents
    assert (document["value"], document["set_by"]) == (value, set_by)
    listed_keys = {d["key"] for d in config("list", "--json").documents}
    assert {name for name, _ in rows} <= listed_keys


def test_no_limit_is_null_in_json(config: Command) -> None:
    (document,) = config("get", "MERGE_JOB_MAX_WALLTIME_managed", "--json").documents
    assert document["value"] is None
    assert "no limit" in config("get", "MERGE_JOB_MAX_WALLTIME_managed").out


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (("get", "NQUEUED_SATCAP"), 4, "did you mean NQUEUED_SAT_CAP"),
        (("set", "NQUEUED_SATCAP", "1", "--reason", "r"), 4, "did you mean NQUEUED_SAT_CAP"),
        (("set", "MIN_WEIGHT", "1", "--reason", "r"), 4, "MIN_WEIGHT_<label>_<gshare>"),
        (("unset", "NQUEUED_SATCAP", "--reason", "r"), 4, "did you mean NQUEUED_SAT_CAP"),
        (("history", "NQUEUED_SATCAP"), 4, "did you mean NQUEUED_SAT_CAP"),
        (("set", "NQUEUED_SAT_CAP", "1"), 2, "--reason"),
        (("set", "NQUEUED_SAT_CAP"), 2, "VALUE|value"),
        (("set", "NQUEUED_SAT_CAP", "many", "--reason", "r"), 3, "takes a whole number in files, >= 0"),
        (("set", "NQUEUED_SAT_CAP", "-1", "--reason", "r"), 3, "-1 is out of range"),
        (("set", "NQUEUED_SAT_CAP", "10001", "--reason", "r"), 3, "contradicts"),
        (("set", "NW_ACTIVE", "yes", "--reason", "r"), 3, "NW_ACTIVE takes true or false"),
        (("set", "NQUEUED_SAT_CAP", "9", "--vo", "cms", "--reason", "r"), 3, "VO atlas only"),
        (("set", "NQUEUED_SAT_CAP", "9", "--reason", " "), 3, "the reason"),
        (("set", "NQUEUED_SAT_CAP", "9", "--reason", "r", "--editor", ""), 3, "the editor"),
        (("unset", "NQUEUED_SAT_CAP", "--reason", "r"), 3, "is not set for VO atlas"),
        (("rollback", "9", "--reason", "r"), 4, "no version 9"),
        (("diff", "1", "2"), 4, "no version 1"),
        (("diff", "0", "2"), 2, "x>=1|less than 1"),
    ],
)
def test_refusals(config: Command, arguments: tuple[str, ...], status: int, message: str) -> None:
    outcome = config(*arguments)
    assert outcome.status == status
    assert outcome.out == ""
    assert any(part in outcome.err for part in message.split("|")), outcome.err
    assert config("list", "--set", "--json").out == ""


def test_the_second_editor_is_refused(config: Command) -> None:
    assert config("set", "NW_THRESHOLD", "1.5", "--reason", "r", "--expect-version", "0").status == 0
    outcome = config("set", "NW_THRESHOLD", "1.6", "--reason", "r", "--expect-version", "1")
    assert outcome.status == 3
    assert "version 2, changed by operator, not at the expected version 1" in outcome.err
    assert "broker config diff 1 2" in outcome.err
    (document,) = config("get", "NW_THRESHOLD", "--json").documents
    assert document["value"] == 1.5


def test_a_refusal_names_a_version_that_diff_can_show(config: Command, database: Database) -> None:
    config("set", "NW_THRESHOLD", "1.5", "--reason", "r")
    insert(database, "NQUEUED_SAT_CAP", "9", "int")
    outcome = config("set", "NW_THRESHOLD", "1.6", "--reason", "r", "--expect-version", "2")
    assert outcome.status == 3
    assert "version 3, changed by (outside)" in outcome.err
    (document,) = config("diff", "2", "3", "--json").documents
    assert (document["key"], document["new"]) == ("NQUEUED_SAT_CAP", "9")


def test_setting_the_current_value_changes_nothing(config: Command) -> None:
    config("set", "NW_THRESHOLD", "1.5", "--reason", "r")
    second = config("set", "NW_THRESHOLD", "1.50", "--reason", "r")
    assert second.status == 0
    assert "nothing to change, it is so in version 2" in second.out


@pytest.mark.slow
def test_diff_and_rollback(config: Command) -> None:
    config("set", "NW_THRESHOLD", "1.5", "--reason", "r")
    config("set", "NW_ACTIVE", "false", "--reason", "r")
    (document,) = config("diff", "2", "3", "--json").documents
    assert (document["key"], document["old"], document["new"]) == ("NW_ACTIVE", None, "false")
    assert "2 difference(s)" in config("diff", "1", "3").out
    rollback = config("rollback", "2", "--reason", "no", "--json")
    assert rollback.documents[0]["version"] == 4
    assert config("diff", "2", "4", "--json").out == ""
    assert config("rollback", "4", "--reason", "no").status == 0


def test_a_wrong_row_is_reported_and_its_last_good_value_shown(config: Command, database: Database) -> None:
    config("set", "NQUEUED_SAT_CAP", "9", "--reason", "r")
    with database.begin() as connection:
        connection.execute(sa.text("UPDATE doma_panda.config SET value = 'many'"))
    outcome = config("list", "--set", "--json")
    assert outcome.status == 0
    (document,) = outcome.documents
    assert document["value"] == 9
    assert "'many' cannot be read as type integer" in document["bad_row"]
    assert document["version"] == 0
    assert "warning: CONFIG row jobbroker/NQUEUED_SAT_CAP of VO atlas" in outcome.err
    assert "last good value 9 is used" in outcome.err
    table = config("list")
    assert "config, bad row" in table.out
    assert "not yet published" in table.out


def test_a_wrong_row_that_was_never_good(config: Command, database: Database) -> None:
    insert(database, "NW_THRESHOLD", "nan", "float")
    (document,) = config("list", "--set", "--json").documents
    assert (document["key"], document["value"], document["source"]) == ("NW_THRESHOLD", 1.7, "default")


def test_contradicting_rows_of_other_programs_are_reported(config: Command, database: Database) -> None:
    insert(database, "NQUEUED_SAT_CAP", "20000", "int")
    assert "warning: NQUEUED_SAT_CAP = 20000 is larger than" in config("list").err


def test_values_of_another_vo(config: Command) -> None:
    assert config("set", "STORAGE_MIN_FREE_SIZE", "50", "--vo", "cms", "--reason", "r").status == 0
    for vo, value in (("cms", 50), ("atlas", 200)):
        (document,) = config("get", "STORAGE_MIN_FREE_SIZE", "--vo", vo, "--json").documents
        assert document["value"] == value


def test_names_are_escaped_on_a_terminal(config: Command, database: Database) -> None:
    insert(database, "NQUEUELIMITSITE_\x1b[31mred\n", "5", "int")
    table = config("list").out
    assert "\x1b" not in table
    assert "NQUEUELIMITSITE_\\x1b[31mred\\n" in table
    config("set", "NW_THRESHOLD", "1", "--reason", "a\x1b]0;owned\x07b\nforged")
    assert "\x1b" not in config("history").out


def test_without_a_login_name_the_editor_is_required(config: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown() -> str:
        raise KeyError("uid not found")

    monkeypatch.setattr(getpass, "getuser", unknown)
    outcome = config("set", "NW_THRESHOLD", "1", "--reason", "r")
    assert outcome.status == 2
    assert "--editor" in outcome.err
    assert config("set", "NW_THRESHOLD", "1", "--reason", "r", "--editor", "carol").status == 0


def test_a_rollback_needs_no_reason(config: Command) -> None:
    for value in ("200", "201"):
        assert config("set", "NQUEUED_SAT_CAP", value, "--reason", "try").status == 0
    assert config("rollback", "2").status == 0
    assert config("history", "--json").documents[0]["reason"] == "back to version 2"


def test_doc_is_the_reference_page(config: Command) -> None:
    page = Path(__file__).parents[3] / "docs" / "reference" / "gdpconfig.md"
    assert config("doc").out == page.read_text(encoding="utf-8")
