"""Mode `mirrored` in JEDI: its watchdog copies PanDA's tables, and the plug-in decides on them as on PanDA's own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, timedelta
from pathlib import Path
from typing import Any

import plugged
import pytest
import sqlalchemy as sa
from gridbroker_jedi import mirror
from gridbroker_jedi.mirror import GridMirrorWatchDog
from gridbroker_jedi.settings import PluginSettings
from grids.generator import scenario
from panda.installation import CLOCK

from broker.store.connection.database import Database
from broker.store.scenarios.load_dump import REPLICA_TABLES, load
from broker.store.scenarios.scenario_file import Scenario
from broker.store.schema import migrate

MODULE = "atlas:managed:gridbroker_jedi.mirror:GridMirrorWatchDog:gridbroker_mirror"


@pytest.fixture
def make_mirror(test_server: Any, tmp_path: Path) -> Iterator[Callable[[Any], str]]:
    """A database for copies, with Rucio's tables of a site."""
    made: list[str] = []

    def make(site: Any) -> str:
        url = test_server.create(migrated=False)
        made.append(url)
        with Database(url) as database, Database(site.url) as panda:
            assert migrate.upgrade(database, mirrored=True).mode == migrate.MIRRORED
            with panda.read_snapshot() as connection:
                rucio = {
                    name: [dict(row._mapping) for row in connection.execute(sa.text(f"SELECT * FROM broker.{name}"))]
                    for name in REPLICA_TABLES
                }
            load(
                database, Scenario(CLOCK.now.replace(tzinfo=UTC), {name: rows for name, rows in rucio.items() if rows})
            )
        return url

    yield make
    for database in mirror._DATABASES.values():
        database.close()
    mirror._DATABASES.clear()
    mirror._PRESENT.clear()
    for url in made:
        test_server.drop(url.rsplit("/", 1)[1].split("?")[0])


@pytest.fixture
def watchdog(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any, str], Any]:
    """The watchdog's module as JEDI's factory makes it."""

    def make(site: Any, url: str) -> Any:
        from pandajedi.jediconfig import jedi_config
        from pandajedi.jediorder.WatchDog import WatchDog

        monkeypatch.setattr(mirror, "read_settings", lambda: PluginSettings(database_url=url))
        monkeypatch.setattr(GridMirrorWatchDog, "clock", staticmethod(lambda: CLOCK.now.replace(tzinfo=UTC)))
        jedi_config.watchdog.modConfig = MODULE
        factory = WatchDog(None, site.buffer, site.ddm, "atlas", "managed", "gridbroker_mirror", 40)
        assert factory.initializeMods(site.buffer, site.ddm)
        found = factory.getImpl("atlas", "managed", subType="gridbroker_mirror")
        assert isinstance(found, GridMirrorWatchDog)
        return found

    return make


def _folder(tmp_path: Path) -> Path:
    """The configuration with which jobs are counted by PanDA's statistics, as a mirror does."""
    (tmp_path / "broker.yaml").write_text("job_statistics: panda\n", encoding="utf-8")
    return tmp_path


def _weights(site: Any, service: Any) -> dict[Any, dict[str, float]]:
    """Candidates of every chunk by the plug-in, as they stand in JEDI's own objects."""
    found = {}
    for (task,) in site.rows("SELECT jeditaskid FROM doma_panda.jedi_tasks ORDER BY 1"):
        for spec, cloud, chunk in plugged.chunks(site, task):
            broker = plugged.broker_for(site, spec)
            broker.doBrokerage(spec, cloud, chunk, None)
            assert broker._panda is None, spec.errorDialog
            key = (task, chunk.masterDataset.datasetID, chunk.ramCount or 0)
            found[key] = {name: one.weight for name, one in chunk.siteCandidates.items()}
    return found


@pytest.mark.parametrize("kind", ["production_job", "analysis_job"])
def test_chunks_are_decided_as_on_pandas_own_tables(
    kind: str, make_site: Any, make_mirror: Any, watchdog: Any, use_service: Any, tmp_path: Path
) -> None:
    site = make_site(scenario(3, kind))
    url = make_mirror(site)
    assert watchdog(site, url).doAction() == GridMirrorWatchDog.SC_SUCCEEDED
    plugged.configure()
    direct = _weights(site, use_service(site.url, profile="panda", config=_folder(tmp_path)))
    mirrored = use_service(url, profile="panda")
    assert _weights(site, mirrored) == direct
    assert sum(map(bool, direct.values())) > 3
    mirrored.close()
    with Database(url) as database, database.read_snapshot() as connection:
        assert connection.scalar(sa.text("SELECT count(*) FROM broker.decisions")) == len(direct)


def test_tasks_are_decided_as_on_pandas_own_tables(
    make_site: Any, make_mirror: Any, watchdog: Any, use_service: Any, tmp_path: Path
) -> None:
    site = make_site(scenario(2, "production_task"))
    url = make_mirror(site)
    assert watchdog(site, url).doAction() == GridMirrorWatchDog.SC_SUCCEEDED
    # the copy is from before these tasks came to wait: the call brings them up to date
    tasks = [task for (task,) in site.rows("SELECT jeditaskid FROM doma_panda.jedi_tasks WHERE status = 'assigning'")]
    with Database(url) as database, database.begin() as connection:
        connection.exec_driver_sql("SET LOCAL gridbroker.writing_copies = 'on'")
        connection.execute(sa.text("DELETE FROM doma_panda.jedi_tasks WHERE jeditaskid = ANY(:t)"), {"t": tasks[:2]})
    direct = use_service(site.url, profile="panda", config=_folder(tmp_path)).tasks("atlas", tasks, 7)
    mirrored = use_service(url, profile="panda").tasks("atlas", tasks, 7, site.buffer)
    assert [(one.decision.jeditaskid, name) for one, name in mirrored] == [
        (one.decision.jeditaskid, name) for one, name in direct
    ]
    assert {one.decision.jeditaskid for one, _ in mirrored} == set(tasks) and any(name for _, name in mirrored)


def test_an_error_is_no_empty_table_and_an_old_copy_is_not_decided_on(
    make_site: Any, make_mirror: Any, watchdog: Any, use_service: Any
) -> None:
    site = make_site(scenario(3, "production_job"))
    url = make_mirror(site)
    dog = watchdog(site, url)
    assert dog.doAction() == GridMirrorWatchDog.SC_SUCCEEDED
    site.run("ALTER TABLE doma_panda.schedconfig_json RENAME TO elsewhere")
    CLOCK.now += timedelta(minutes=1)
    assert dog.doAction() == GridMirrorWatchDog.SC_FAILED
    with Database(url) as database, database.read_snapshot() as connection:
        assert connection.scalar(sa.text("SELECT count(*) FROM doma_panda.schedconfig_json")) > 0
        said = "SELECT error, failures FROM broker.mirror_copies WHERE name = 'schedconfig_json'"
        error, failures = connection.execute(sa.text(said)).one()
    assert "querySQL gave no answer" in error and failures == 1
    site.run("ALTER TABLE doma_panda.elsewhere RENAME TO schedconfig_json")
    CLOCK.now += timedelta(minutes=6)
    plugged.configure()
    service = use_service(url, profile="panda")
    (task,) = site.rows("SELECT min(jeditaskid) FROM doma_panda.jedi_tasks WHERE status = 'ready'")[0]
    spec, cloud, chunk = plugged.chunks(site, task)[0]
    broker = plugged.broker_for(site, spec)
    broker.doBrokerage(spec, cloud, chunk, None)
    assert broker._panda is not None
    service.close()
    with Database(url) as database, database.read_snapshot() as connection:
        calls = connection.execute(sa.text("SELECT outcome, reason FROM broker.plugin_calls")).one()
    assert tuple(calls) == ("fell_back", "stale_snapshot")
