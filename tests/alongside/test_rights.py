"""Alongside PanDA with the least rights: agents that are off, messages, and required grants."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa
import yaml

from agents.service import registry
from agents.service.configuration import config_file, load
from broker import resources
from broker.alongside.answers.panda_server import agents_via_panda
from broker.cli.entry import main
from broker.errors import Refused
from broker.service.answers.doctor import Finding, examine
from broker.store.connection.database import Database
from broker.store.connection.denials import TUNING, WRITERS, MissingRight
from broker.store.scenarios.load_dump import TablesNotEmpty, load as load_scenario
from broker.store.scenarios.scenario_file import Scenario
from broker.store.schema import migrate, rights
from tests.alongside.conftest import READ, ROLE

Least = Callable[..., Database]
NOW = datetime(2026, 8, 1, 12, tzinfo=UTC)
SECTIONS = load(config_file("agents.yaml"), registry.NAMES).agents


def test_a_role_that_owns_schema_broker_needs_no_right_on_the_database(least: Least) -> None:
    database = least(*READ)
    assert migrate.upgrade(database).mode == migrate.BESIDE
    assert migrate.check(database) == migrate.BESIDE


def test_a_missing_schema_is_one_line_with_its_remedy(panda: Database, least: Least) -> None:
    database = least(*READ)
    with panda.autocommit() as connection:
        connection.exec_driver_sql("DROP SCHEMA broker CASCADE")
    with pytest.raises(MissingRight) as refused:
        migrate.upgrade(database)
    assert "\n" not in str(refused.value)
    assert f'CREATE SCHEMA broker AUTHORIZATION "{ROLE}";' in refused.value.remedy


@pytest.mark.parametrize(
    ("statement", "grant"),
    [
        ("SELECT 1 FROM doma_panda.jedi_tasks", 'SELECT ON "doma_panda"."jedi_tasks"'),
        ("UPDATE doma_panda.jedi_tasks SET nucleus = 'X'", 'SELECT, UPDATE ON "doma_panda"."jedi_tasks"'),
        ('DELETE FROM "doma_panda"."jobsactive4"', 'SELECT, DELETE ON "doma_panda"."jobsactive4"'),
        ("INSERT INTO doma_panda.tasks_statuslog (jeditaskid) VALUES (1)", 'SELECT, INSERT ON "doma_panda"."tasks_'),
        ("SELECT 1 FROM doma_pandameta.sitedata", 'SELECT ON "doma_pandameta"."sitedata"'),
    ],
)
def test_a_missing_right_is_one_line_with_its_grant(least: Least, statement: str, grant: str) -> None:
    database = least(f"GRANT USAGE ON SCHEMA doma_panda, doma_pandameta TO {ROLE}")
    with pytest.raises(MissingRight) as refused, database.begin() as connection:
        connection.execute(sa.text(statement))
    assert f"GRANT {grant}" in str(refused.value) and str(refused.value).count("\n") == 0


@pytest.mark.parametrize(
    ("statement", "remedy"),
    [
        ("SELECT nextval('doma_panda.jobsdefined4_pandaid_seq')", "no agent takes numbers of jobsdefined4_pandaid_seq"),
        ("INSERT INTO doma_panda.jobsdefined4 (pandaid) VALUES (1)", "no agent makes rows of jobsdefined4"),
        ("INSERT INTO doma_panda.filestable4 (row_id) VALUES (1)", "no agent makes rows of filestable4"),
    ],
)
def test_no_grant_is_suggested_for_creating_jobs(least: Least, statement: str, remedy: str) -> None:
    database = least(f"GRANT USAGE ON SCHEMA doma_panda TO {ROLE}")
    with pytest.raises(MissingRight) as refused, database.begin() as connection:
        connection.execute(sa.text(statement))
    assert remedy in refused.value.remedy and "GRANT" not in str(refused.value)


@pytest.mark.parametrize(
    "words", [("serve", "--once"), ("run", "production_job"), ("run", "production_job", "--dry-run")]
)
def test_job_generation_is_refused_with_the_reason(
    least: Least, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    words: tuple[str, ...],
) -> None:  # fmt: skip
    database = least(*READ)
    migrate.upgrade(database)
    (tmp_path / "broker.yaml").write_text("job_generation: broker\n", encoding="utf-8")
    monkeypatch.setenv("BROKER_DATABASE_URL", database.url)
    monkeypatch.setenv("BROKER_CONFIG", str(tmp_path))
    with pytest.raises(SystemExit) as exit_info:
        main(list(words))
    output = "".join(capsys.readouterr())
    assert exit_info.value.code and "no output files" in output and "the task would never end" in output, output
    assert "leave job_generation: auto" in output and "GRANT" not in output


def test_a_missing_schema_right_names_the_schema(least: Least) -> None:
    with pytest.raises(MissingRight) as refused, least().read_snapshot() as connection:
        connection.execute(sa.text("SELECT 1 FROM doma_panda.jedi_tasks"))
    assert 'GRANT USAGE ON SCHEMA "doma_panda"' in refused.value.remedy


def test_the_printed_grants_are_sufficient(panda: Database, least: Least) -> None:
    database = least(*READ)
    migrate.upgrade(database)
    with database.read_snapshot() as connection:
        lacking = [right for right in rights.read_rights(connection, database.names) if not right.held]
    assert {right.who for right in lacking} == {*WRITERS, TUNING}
    with panda.autocommit() as connection:
        for right in lacking:
            connection.exec_driver_sql(right.grant(ROLE))
    with database.read_snapshot() as connection:
        assert all(right.held for right in rights.read_rights(connection, database.names))


@pytest.mark.parametrize("agent", WRITERS)
def test_agents_that_write_pandas_tables_are_off_by_default(agent: str) -> None:
    shipped = SECTIONS[agent]
    assert shipped.runs(migrate.STANDALONE) and not shipped.runs(migrate.BESIDE)
    assert shipped.model_copy(update={"enabled": True}).runs(migrate.BESIDE)
    assert not shipped.model_copy(update={"enabled": False}).runs(migrate.STANDALONE)


def test_agents_that_only_decide_are_on() -> None:
    assert SECTIONS["production_job"].runs(migrate.BESIDE) and SECTIONS["analysis_job"].runs(migrate.BESIDE)


def _examine(database: Database, now: datetime | None = None, **enabled: bool) -> list[Finding]:
    if now is None:
        with database.read_snapshot() as connection:
            now = connection.exec_driver_sql("SELECT clock_timestamp()").scalar_one()
    return examine(database, enabled, now)


def _problems(findings: list[Finding], topic: str) -> list[Finding]:
    return [finding for finding in findings if finding.topic == topic and finding.level == "problem"]


def test_doctor_asks_only_for_the_rights_of_enabled_agents(least: Least) -> None:
    database = least(*READ)
    migrate.upgrade(database)
    findings = _examine(database)
    assert not _problems(findings, "right")
    assert any(finding.what == f"reading: role {ROLE} has all rights" for finding in findings)
    problems = _problems(_examine(database, production_task=True), "right")
    assert {finding.remedy for finding in problems} == {
        f'GRANT UPDATE ON "doma_panda"."jedi_tasks" TO "{ROLE}";',
        f'GRANT UPDATE ON "doma_panda"."jedi_datasets" TO "{ROLE}";',
        f'GRANT INSERT ON "doma_panda"."tasks_statuslog" TO "{ROLE}";',
    }


def test_no_grant_is_shown_for_an_agent_that_is_off(least: Least) -> None:
    database = least(*READ)
    migrate.upgrade(database)
    remedies = {finding.what: finding.remedy for finding in _examine(database) if finding.topic == "right"}
    off = {text.split(":")[0] for text in remedies if "missing and not needed: it is off, or asks PanDA" in text}
    assert off == set(WRITERS)
    assert all("config" in remedy for remedy in remedies.values() if remedy)


@pytest.mark.parametrize(
    ("agents", "expected"),
    [
        ({}, {"tuning"}),
        ({"timeouts": {"enabled": True}}, {"tuning"}),
        ({"timeouts": {"enabled": True, "options": {"through": "sql"}}}, {"tuning", "timeouts"}),
        ({"production_task": {"enabled": True}}, {"tuning", "production_task"}),
    ],
)
def test_init_prints_the_missing_rights_of_enabled_agents(
    least: Least, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    agents: dict[str, dict[str, object]], expected: set[str],
) -> None:  # fmt: skip
    database = least(*READ)
    shipped = yaml.safe_load(resources.path("config/agents.yaml").read_text(encoding="utf-8"))
    for name, section in agents.items():
        shipped["agents"][name] |= section
    (tmp_path / "agents.yaml").write_text(yaml.safe_dump(shipped), encoding="utf-8")
    monkeypatch.setenv("BROKER_DATABASE_URL", database.url)
    monkeypatch.setenv("BROKER_CONFIG", str(tmp_path))
    with pytest.raises(SystemExit):
        main(["db", "init"])
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("missing right, ")]
    assert {line.split(", ")[1].split(":")[0] for line in lines} == expected


def test_agents_that_ask_pandas_server_need_no_rights_on_its_tables(least: Least) -> None:
    database = least(*READ)
    migrate.upgrade(database)
    agents = {"timeouts": SECTIONS["timeouts"], "analysis_job": SECTIONS["analysis_job"]}
    with database.read_snapshot() as connection:
        now = connection.exec_driver_sql("SELECT clock_timestamp()").scalar_one()
    assert agents_via_panda(agents) == {"timeouts"}
    assert not _problems(examine(database, {"timeouts": True}, now, agents_via_panda(agents)), "right")
    by_sql = {"timeouts": SECTIONS["timeouts"].model_copy(update={"options": {"through": "sql"}})}
    assert agents_via_panda(by_sql) == set()
    assert _problems(examine(database, {"timeouts": True}, now, agents_via_panda(by_sql)), "right")


@pytest.mark.parametrize(("seconds", "problem"), [(29.0, False), (-29.0, False), (31.0, True), (-31.0, True)])
def test_doctor_compares_clocks(least: Least, seconds: float, problem: bool) -> None:
    database = least(*READ)
    migrate.upgrade(database)
    with database.read_snapshot() as connection:
        now = connection.exec_driver_sql("SELECT clock_timestamp()").scalar_one()
    findings = _examine(database, now + timedelta(seconds=seconds + (0.5 if seconds < 0 else 0)))
    assert bool(_problems(findings, "clock")) is problem


def test_doctor_reports_ages_and_components_that_do_the_same_work(panda: Database, least: Least) -> None:
    database = least(*READ)
    migrate.upgrade(database)
    with panda.begin() as connection:
        connection.exec_driver_sql("INSERT INTO doma_panda.jobs_share_stats (ts) VALUES (now() - interval '31 min')")
        connection.exec_driver_sql("INSERT INTO doma_panda.sw_tags (panda_queue, last_update) VALUES ('Q', now())")
        connection.exec_driver_sql(
            "INSERT INTO doma_panda.jedi_process_lock (vo, prodsourcelabel, workqueue_id, cloud, resource_type, "
            "component, lockedby, lockedtime) VALUES ('d', 'd', 0, 'd', 'd', 'pandaD.copyArchive', 'x', "
            "now() - interval '10 min')"
        )
    findings = _examine(database, timeouts=True)
    ages = {finding.what.split(":")[0]: finding.level for finding in findings if finding.topic == "age"}
    assert ages["jobs_share_stats"] == "note" and ages["sw_tags"] == "ok"
    (problem,) = _problems(findings, "same_work")
    assert problem.what.startswith("timeouts (on): pandaD.copyArchive does the same, last at work 10 min ago")
    assert "TIMEOUT_holding" in problem.remedy
    assert not _problems(_examine(database), "same_work")


def test_a_scenario_of_rucios_tables_may_be_loaded_alongside_panda(least: Least) -> None:
    database = least(*READ)
    migrate.upgrade(database)
    replica = {"scope": "s", "name": "d", "rse": "R", "available_files": 1, "total_files": 1}
    assert load_scenario(database, Scenario(NOW, {"dataset_replicas": [replica]})) == {"dataset_replicas": 1}
    with pytest.raises(TablesNotEmpty):
        load_scenario(database, Scenario(NOW, {"dataset_replicas": [replica]}))
    assert load_scenario(database, Scenario(NOW, {"dataset_replicas": [replica]}), replace=True)
    with pytest.raises(Refused, match="jedi_tasks"):
        load_scenario(database, Scenario(NOW, {"jedi_tasks": [{"jeditaskid": 1}]}))
