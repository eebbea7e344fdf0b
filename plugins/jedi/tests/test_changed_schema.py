"""PanDA's tables, or ours, change under the plug-in: it decides nothing, and PanDA's own class goes on."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import Any

import plugged
import pytest
from grids.generator import scenario
from panda.installation import CLOCK

#: The columns of the trial, renamed one at a time.
RENAMED = (
    ("jobsactive4", "computingsite"),
    ("jobsactive4", "gshare"),
    ("schedconfig_json", "data"),
    ("jedi_tasks", "splitrule"),
    ("ddm_endpoint", "space_free"),
)


def _calls(site: Any) -> set[tuple[str, str]]:
    return set(site.rows("SELECT outcome, reason FROM broker.plugin_calls"))


def _call(site: Any) -> str | None:
    """One call of JEDI's for the first task; its error dialog."""
    (task,) = site.rows("SELECT min(jeditaskid) FROM doma_panda.jedi_tasks")[0]
    spec, cloud, chunk = plugged.chunks(site, task)[0]
    spec.errorDialog = None
    plugged.broker_for(site, spec).doBrokerage(spec, cloud, chunk, None)
    dialog: str | None = spec.errorDialog
    return dialog


def test_a_needed_column_that_is_gone_ends_in_a_fall_back(make_site: Any, use_service: Any) -> None:
    site = make_site(scenario(0, "production_job"))
    plugged.configure()
    (task,) = site.rows("SELECT min(jeditaskid) FROM doma_panda.jedi_tasks")[0]
    spec, cloud, chunk = plugged.chunks(site, task)[0]
    broker = plugged.broker_for(site, spec)
    for table, column in RENAMED:
        site.run(f"ALTER TABLE doma_panda.{table} RENAME COLUMN {column} TO other")
        service = use_service(site.url, fallback="wait")
        broker.doBrokerage(spec, cloud, chunk, None)
        service.close()
        assert not chunk.siteCandidates
        assert spec.errorDialog == f"gridbroker: no decision: column_gone: column {table}.{column} is gone"
        site.run(f"ALTER TABLE doma_panda.{table} RENAME COLUMN other TO {column}")
    assert _calls(site) == {("waits", "column_gone")}


def test_a_column_that_goes_while_the_plug_in_runs_is_noticed(make_site: Any, use_service: Any) -> None:
    site = make_site(scenario(0, "production_job"))
    service = use_service(site.url, fallback="wait")
    plugged.configure()
    _call(site)
    site.run("ALTER TABLE doma_panda.ddm_endpoint ALTER COLUMN space_free TYPE text")
    _read_anew(site)
    assert "column ddm_endpoint.space_free is text, not bigint" in str(_call(site))
    service.close()
    assert ("waits", "column_gone") in _calls(site)


@pytest.mark.parametrize(
    ("change", "back"),
    [
        (
            "INSERT INTO broker.schema_migrations (part, version, name, checksum) VALUES ('broker', 9999, 'x', 'y');"
            " UPDATE broker.oldest_writer SET release = '99.0.0', version = 9999",
            "DELETE FROM broker.schema_migrations WHERE version = 9999;"
            " UPDATE broker.oldest_writer SET release = '1.0.0', version = 195",
        ),
        (
            "ALTER TABLE broker.decisions RENAME COLUMN outcome TO other",
            "ALTER TABLE broker.decisions RENAME COLUMN other TO outcome",
        ),
    ],
)
def test_our_schema_changes_while_the_plug_in_runs(change: str, back: str, make_site: Any, use_service: Any) -> None:
    site = make_site(scenario(0, "production_job"))
    service = use_service(site.url, fallback="wait")
    plugged.configure()
    _call(site)
    site.run(change)
    _read_anew(site)
    assert "schema_changed" in str(_call(site))
    site.run(back)
    _read_anew(site)
    assert "no decision" not in str(_call(site))
    service.close()
    assert ("waits", "schema_changed") in _calls(site)


def _read_anew(site: Any) -> None:
    """Let a minute pass, and the reading that a call then begins behind its back end."""
    CLOCK.now += timedelta(seconds=61)
    _call(site)
    for thread in threading.enumerate():
        if thread.name == "gridbroker-grid":
            thread.join()
