"""The switch of ``broker plugin`` under JEDI's own calls: off, labels, percent, and back."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import plugged
from grids.generator import scenario
from panda.installation import CLOCK

from broker.alongside.model.plugin_switch import PluginSwitch, place_of
from broker.alongside.statements.plugin_switches import set_switch
from broker.store.connection.database import Database


def _set(site: Any, switch: PluginSwitch) -> None:
    with Database(site.url) as database, database.begin() as connection:
        set_switch(connection, switch, editor="test", reason="test")
    CLOCK.now += timedelta(seconds=60)


def _decided(site: Any) -> dict[int, bool]:
    """By task whether the plug-in decided on its first chunk."""
    switched_off = {}
    for (task,) in site.rows("SELECT jeditaskid FROM doma_panda.jedi_tasks ORDER BY 1"):
        spec, cloud, chunk = plugged.chunks(site, task)[0]
        broker = plugged.broker_for(site, spec)
        asked: list[int] = []
        broker._fall_back = lambda own, spec, *call, asked=asked: (asked.append(spec.jediTaskID), None)
        broker.doBrokerage(spec, cloud, chunk, None)
        switched_off[task] = not asked
    return switched_off


def test_off_labels_percent_and_on(make_site: Any, use_service: Any) -> None:
    site = make_site(scenario(0, "production_job"))
    service = use_service(site.url, refresh_s=1e9, stale_s=1e9)
    plugged.configure()
    assert all(_decided(site).values())  # nobody ever set it
    _set(site, PluginSwitch(enabled=False))
    assert not any(_decided(site).values())
    _set(site, PluginSwitch(labels=("test",)))
    assert not any(_decided(site).values())
    _set(site, PluginSwitch(percent=50, labels=("managed",)))
    half = _decided(site)
    assert half == {task: place_of(task) < 50 for task in half}
    _set(site, PluginSwitch())
    assert all(_decided(site).values())
    service.close()
    left = dict(site.rows("SELECT reason, calls FROM broker.plugin_calls WHERE outcome = 'left_to_panda'"))
    count = len(half)
    assert left["switched_off"] == left["label"] == count
    assert left.get("percent", 0) == sum(not one for one in half.values())


def test_within_a_minute_the_old_switch_serves(make_site: Any, use_service: Any) -> None:
    site = make_site(scenario(0, "production_job"))
    use_service(site.url, refresh_s=1e9, stale_s=1e9)
    plugged.configure()
    _decided(site)
    _set(site, PluginSwitch(enabled=False))
    CLOCK.now -= timedelta(seconds=1)
    assert all(_decided(site).values())
    CLOCK.now += timedelta(seconds=1)
    assert not any(_decided(site).values())


def test_what_was_known_stays_in_force_while_it_cannot_be_read(make_site: Any, use_service: Any) -> None:
    site = make_site(scenario(0, "production_job"))
    use_service(site.url, refresh_s=1e9, stale_s=1e9)
    plugged.configure()
    _set(site, PluginSwitch(enabled=False))
    assert not any(_decided(site).values())
    site.run("DROP TABLE broker.plugin_switches")
    CLOCK.now += timedelta(seconds=61)
    assert not any(_decided(site).values())
