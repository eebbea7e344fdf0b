"""A day of a PanDA site: installed by the page, watched, through the gate, a tenth, all, off, and removed."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from datetime import UTC, timedelta
from pathlib import Path
from typing import Any

import plugged
import pytest
import sqlalchemy as sa
import yaml
from grids.generator import scenario
from panda import generator
from panda.installation import CLOCK
from test_walk_page import PAGE

from broker import resources
from broker.alongside.answers.call_files import read_folder
from broker.alongside.model.plugin_switch import place_of
from broker.cli.entry import main
from broker.errors import GATE_CLOSED
from broker.store.connection.database import Database
from broker.store.scenarios.load_dump import REPLICA_TABLES
from broker.store.scenarios.scenario_file import Scenario, write_scenario

SQL = re.findall(r"^```sql\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
#: Of the whole server, which other tests use at the same time.
ROLE = "broker_of_the_day"
PANDA = (
    "pandajedi.jedibrokerage.AtlasProdJobBroker:AtlasProdJobBroker",
    "pandajedi.jedibrokerage.AtlasAnalJobBroker:AtlasAnalJobBroker",
)
WORK = ("jedi_tasks", "jedi_datasets", "jedi_dataset_contents")
Broker = Callable[..., list[Any]]


def _sql(url: str, text: str) -> None:
    """What the page gives the owner of the database, for a role of this test."""
    own = re.sub(r"\b(ROLE|AUTHORIZATION|TO|BY) broker\b", rf"\1 {ROLE}", text)
    assert ROLE in own
    with Database(url) as database, database.autocommit() as connection:
        for statement in re.sub(r"--.*", "", own).split(";"):
            if statement.strip():
                connection.exec_driver_sql(statement)


@pytest.fixture
def alongside(make_site: Any, tmp_path: Path) -> Iterator[Any]:
    """A PanDA without us, and Rucio's tables in a file."""
    site = make_site(scenario(0, "production_job"))
    with Database(site.url) as database, database.read_snapshot() as connection:
        rows = {
            name: [dict(row._mapping) for row in connection.execute(sa.text(f"SELECT * FROM broker.{name}"))]
            for name in REPLICA_TABLES
        }
    replicas = {name: found for name, found in rows.items() if found}
    write_scenario(tmp_path / "replicas.json", Scenario(CLOCK.now.replace(tzinfo=UTC), replicas))
    site.run("DROP SCHEMA broker CASCADE")
    yield site
    with Database(site.url) as database, database.autocommit() as connection:
        if connection.scalar(sa.text("SELECT 1 FROM pg_roles WHERE rolname = :role"), {"role": ROLE}):
            connection.exec_driver_sql(f"DROP OWNED BY {ROLE} CASCADE; DROP ROLE {ROLE}")


@pytest.fixture
def broker(
    alongside: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Broker:
    """Commands of the role; what they say as JSON."""
    url = sa.make_url(alongside.url).set(username=ROLE).render_as_string(hide_password=False)
    (tmp_path / "etc" / "profiles").mkdir(parents=True)
    (tmp_path / "etc" / "broker.yaml").write_text("profile: panda\n", encoding="utf-8")
    monkeypatch.setenv("BROKER_DATABASE_URL", url)
    monkeypatch.setenv("BROKER_CONFIG", str(tmp_path / "etc"))

    def run(*words: str, status: int = 0) -> list[Any]:
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main([*words, "--json"])
        said = capsys.readouterr()
        assert int(ended.value.code or 0) == status, said.out[-2000:] + said.err[-2000:]
        return [json.loads(line) for line in said.out.splitlines()]

    return run


def _called(site: Any) -> dict[int, bool]:
    """JEDI asks the plug-in about every task: by task whether ours decided, and not PanDA's class."""
    found = {}
    for (task,) in site.rows("SELECT jeditaskid FROM doma_panda.jedi_tasks ORDER BY 1"):
        for spec, cloud, chunk in plugged.chunks(site, task):
            one = plugged.broker_for(site, spec)
            one.doBrokerage(spec, cloud, chunk, None)
            found[task] = one._panda is None
    return found


def _gate(broker: Broker, folder: Path) -> None:
    """The gate for this site: closed as it is shipped, since a day is no sample, open with the sample of a day."""
    at = ("--at", (CLOCK.now + timedelta(minutes=1)).isoformat())
    shipped = resources.path("config/gate.yaml")
    (closed,) = broker("shadow", "--gate", str(shipped), *at, status=GATE_CLOSED)
    assert {one["criterion"] for one in closed["lines"] if not one["passed"]} >= {"days", "chunks", "agreement"}
    wanted = yaml.safe_load(shipped.read_text(encoding="utf-8"))
    # tasks are few, and JEDI draws at random: one task with many jobs is a large part of a queue's
    wanted["limits"] |= {"chunks": 10, "agreement": 0.5, "queue_share": 0.9}
    wanted |= {"days": 1, "brokerages": {"production_job": {"labels": ["managed"]}}}
    file, page = folder / "gate.yaml", folder / "gate.html"
    file.write_text(yaml.safe_dump(wanted), encoding="utf-8")
    (passed,) = broker("shadow", "--gate", str(file), "--html", str(page), *at)
    found = {one["criterion"]: one for one in passed["lines"]}
    assert passed["passed"] and all(one["passed"] for one in found.values())
    assert found["profile"]["detail"] == "decided by panda" and found["rule_share"]["value"] == 0
    assert found["fall_backs"]["detail"] == "the plug-in was not called" and found["doctor"]["value"] == 0
    assert "the gate is open" in page.read_text(encoding="utf-8")


def _a_minute_later() -> None:
    CLOCK.now += timedelta(seconds=60)


def test_a_day(alongside: Any, broker: Broker, use_service: Any, tmp_path: Path) -> None:
    site = alongside
    # install by the page, with the rights that it names and no others
    _sql(site.url, SQL[0])
    (installed,) = broker("db", "init")
    assert installed["mode"] == "beside" and all(one["held"] for one in installed["rights"])
    broker("db", "load", str(tmp_path / "replicas.json"))
    broker("doctor", "--plugin-calls", str(tmp_path / "calls"))

    # watch: the service decides and records, PanDA's own brokers place
    broker("run", "production_job", "--at", CLOCK.now.isoformat())
    _a_minute_later()
    generator.prepare(site)
    plugged.configure(*PANDA)
    for table in WORK:
        site.run(f"CREATE TABLE public.{table} AS SELECT * FROM doma_panda.{table}")
    generator.run_cycle(site.buffer, site.ddm, "managed|test")
    (compared,) = broker("shadow", "--last", "1h", "--at", (CLOCK.now + timedelta(minutes=1)).isoformat())
    jobs = {line["brokerage"]: line["compared_jobs"] for line in compared["brokerages"]}
    assert jobs["production_job"] >= 10
    _gate(broker, tmp_path)

    # JEDI names the plug-in, for tasks like those that PanDA has just placed
    for table in WORK:
        site.run(f"TRUNCATE doma_panda.{table}")
        site.run(f"INSERT INTO doma_panda.{table} SELECT * FROM public.{table}")
    plugged.configure()
    broker("plugin", "percent", "10", "--reason", "begin with a tenth")
    own = sa.make_url(site.url).set(username=ROLE).render_as_string(hide_password=False)
    service = use_service(own, profile="panda")
    tenth = _called(site)
    assert len(tenth) >= 8 and tenth == {task: place_of(task) < 10 for task in tenth}
    broker("plugin", "percent", "100", "--reason", "all of them")
    _a_minute_later()
    assert all(_called(site).values())
    broker("plugin", "off", "--reason", "an upgrade of PanDA")
    _a_minute_later()
    assert not any(_called(site).values())
    service.close()
    found = [one["what"] for one in broker("doctor", "--plugin-calls", str(tmp_path / "calls"))]
    assert any(what.startswith("switch: off, 100 % of tasks, all labels") for what in found)
    outcomes = site.rows("SELECT DISTINCT outcome FROM broker.plugin_calls ORDER BY 1")
    assert outcomes == [("decided",), ("left_to_panda",)]

    # removal: nothing of ours is left, and a JEDI that was not restarted goes on with PanDA's own class
    _sql(site.url, SQL[-1])
    assert site.rows("SELECT count(*) FROM pg_namespace WHERE nspname = 'broker'") == [(0,)]
    assert site.rows("SELECT count(*) FROM pg_roles WHERE rolname = %s", ROLE) == [(0,)]
    service = use_service(site.url, profile="panda")
    assert not any(_called(site).values())
    service.close()
    assert {one.call.outcome for one in read_folder(tmp_path / "calls")} == {"fell_back"}
