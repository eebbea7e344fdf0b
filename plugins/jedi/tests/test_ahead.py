"""The grid before the first call: read when JEDI makes a broker, or the young one of the service."""

from __future__ import annotations

import os
import threading
from datetime import UTC, timedelta
from typing import Any

import plugged
from gridbroker_jedi import service as services
from grids.generator import scenario
from panda.installation import CLOCK

from broker import __version__
from broker.alongside.answers.call_files import read_folder
from broker.snapshot.snapshot import snapshot_id
from broker.store.connection.database import Database
from broker.store.snapshots import stored_snapshots


def _call(site: Any) -> Any:
    (task,) = site.rows("SELECT min(jeditaskid) FROM doma_panda.jedi_tasks")[0]
    spec, cloud, chunk = plugged.chunks(site, task)[0]
    plugged.broker_for(site, spec).doBrokerage(spec, cloud, chunk, None)
    return spec


def test_making_a_broker_reads_its_grid(make_site: Any, use_service: Any) -> None:
    site = make_site(scenario(0, "production_job"))
    service = use_service(site.url)
    plugged.configure()
    (task,) = site.rows("SELECT min(jeditaskid) FROM doma_panda.jedi_tasks")[0]
    spec, _, _ = plugged.chunks(site, task)[0]
    services._AHEAD.clear()
    plugged.broker_for(site, spec)
    for thread in threading.enumerate():
        if thread.name == "gridbroker-start":
            thread.join()
    assert service._parts is not None
    assert [name for name, keeper in service._parts.keepers.items() if keeper.has_view] == ["production_job"]
    assert {(os.getpid(), "production_job")} == services._AHEAD


def _of_service(site: Any, view: Any, at: Any, engine: str) -> None:
    """Put a snapshot on record as one of a cycle of the service at an instant, under another identifier."""
    digests = [(name, digest) for name, (digest, _) in view.reading.parts.items()]
    identifier = snapshot_id(at, digests)
    with Database(site.url) as database, database.begin() as connection:
        stored_snapshots.save(connection, identifier, at, engine, view.reading.parts, view.reading.about)
        connection.exec_driver_sql(
            "INSERT INTO broker.agent_runs (agent, started_at, outcome, snapshot) VALUES "
            "('production_job', %s, 'done', %s)",
            (at, identifier),
        )


def test_a_young_snapshot_of_the_service_serves_and_an_old_one_does_not(make_site: Any, use_service: Any) -> None:
    site = make_site(scenario(0, "production_job"))
    first = use_service(site.url)
    plugged.configure()
    _call(site)
    read = first._parts.keepers["production_job"].view()
    assert not read.stored
    now = CLOCK.now.replace(tzinfo=UTC)
    for age_s, engine, stored in ((60, __version__, False), (59, "0.0.0", False), (58, __version__, True)):
        taken_at = now - timedelta(seconds=age_s)
        _of_service(site, read, taken_at, engine)
        service = use_service(site.url)
        _call(site)
        view = service._parts.keepers["production_job"].view()
        assert view.stored is stored, (age_s, engine)
        assert view.taken_at == (taken_at if stored else now)
        service.close()
    snapshots = site.rows("SELECT DISTINCT snapshot FROM broker.decisions")
    assert len(snapshots) == 2


def test_what_the_database_does_not_take_is_counted_in_a_file_and_brought_in(
    make_site: Any, use_service: Any, tmp_path: Any
) -> None:
    site = make_site(scenario(0, "production_job"))
    plugged.configure()
    site.run("UPDATE broker.oldest_writer SET release = '99.0.0', version = 9999")
    service = use_service(site.url, fallback="wait")
    assert "schema_changed" in _call(site).errorDialog
    service.close()
    assert site.rows("SELECT count(*) FROM broker.plugin_calls") == [(0,)]
    assert [(one.call.outcome, one.call.reason, one.calls) for one in read_folder(tmp_path / "calls")] == [
        ("waits", "schema_changed", 1)
    ]
    site.run("UPDATE broker.oldest_writer SET release = '1.0.0', version = 195")
    service = use_service(site.url, fallback="wait")
    _call(site)
    service.close()
    counted = dict(site.rows("SELECT outcome, calls FROM broker.plugin_calls"))
    assert counted == {"waits": 1, "decided": 1}
    assert read_folder(tmp_path / "calls") == []
