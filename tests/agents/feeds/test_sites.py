"""The feed from a file of sites on a real database: sites are nuclei, never go stale, and go offline if left out."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from agents.feeds.importing import FeedAlarm
from agents.feeds.sites import SitesAgent, SitesOptions
from broker.errors import Refused
from broker.feeds.statements.feed_runs import changes_of_queue
from broker.snapshot.snapshot import Snapshot
from broker.store.connection.database import Database
from broker.store.connection.tables import TableCatalogue
from tests.agents.feeds.running import PROCESS, Feeding
from tests.feeds.documents import NOW

SITES = """\
sites:
  A:
    storage: {A_DISK: {total_tb: 11, free_tb: 5.5}}
    queues: {A_CE: {cores: 8, batch: {kind: slurm, address: main}}}
"""
B = """\
  B:
    storage: {B_DISK: {total_tb: 11, free_tb: 5.5}}
    queues: {B_CE: {cores: 8, batch: {kind: slurm, address: main}}}
"""


@pytest.fixture
def feeding(database: Database, tmp_path: Path) -> Feeding:
    return Feeding(database, tmp_path)


def import_sites(feeding: Feeding, text: str, **changes: object) -> tuple[str, ...]:
    path = feeding.folder / "sites.yaml"
    path.write_text(text)
    return feeding.run(SitesAgent(SitesOptions(file=path), PROCESS), **changes).notes  # type: ignore[arg-type]


def snapshot(feeding: Feeding, days: int = 0) -> Snapshot:
    from agents.brokerage.grid_reading import GridReader
    from agents.service.configuration import config_file

    with feeding.database.read_snapshot() as connection:
        catalogue = TableCatalogue.read(connection, feeding.database.names)
        reader = GridReader("live", config_file("sources.yaml"))
        return reader.read(connection, catalogue, NOW + timedelta(days=days), lambda: None).snapshot


def states(current: Snapshot) -> dict[str, str]:
    return {state.name: state.state for state in current.states if state.name in ("queues", "storages", "software")}


def test_one_file_makes_nuclei_with_space_which_do_not_go_stale(feeding: Feeding) -> None:
    assert import_sites(feeding, SITES + B) == ()
    for days in (0, 1000):
        current = snapshot(feeding, days)
        assert list(current.nuclei.name[current.nuclei.is_nucleus]) == ["A", "B"]
        assert current.storages.space_free_gb.tolist() == [5122.0, 5122.0]
        assert set(states(current).values()) == {"ok"}


def test_the_same_file_again_changes_nothing(feeding: Feeding) -> None:
    import_sites(feeding, SITES + B)
    import_sites(feeding, SITES + B)
    changes = feeding.last("sites").changes
    assert [change[kind] for change in changes.values() for kind in ("added", "changed", "gone")] == [0] * 3 * len(
        changes
    )


def test_a_removed_site_goes_offline_is_recorded_and_can_come_back(feeding: Feeding) -> None:
    import_sites(feeding, SITES + B)
    notes = import_sites(feeding, SITES)
    assert [note.split(" is in the file")[0] for note in notes] == ["site B", "queue B_CE", "endpoint B_DISK"]
    assert feeding.rows("SELECT panda_queue, data->>'status' FROM {panda}.schedconfig_json ORDER BY 1") == [
        ("A_CE", "online"),
        ("B_CE", "offline"),
    ]
    closed = "SELECT blacklisted_write, blacklisted_read FROM {panda}.ddm_endpoint ORDER BY ddm_endpoint_name"
    assert feeding.rows(closed) == [("N", "N"), ("Y", "Y")]
    assert feeding.rows("SELECT state FROM {panda}.site ORDER BY site_name") == [("ACTIVE",), ("INACTIVE",)]
    assert feeding.last("sites").changes["schedconfig_json"]["fields"] == {"status": 1}
    with feeding.database.begin() as connection:
        last = changes_of_queue(connection, "B_CE", 10)[0]
    assert last.fields == {"status": ["online", "offline"]}
    assert import_sites(feeding, SITES) == ()  # the site is noted once, and stays offline
    assert feeding.rows("SELECT state FROM {panda}.site ORDER BY site_name")[1] == ("INACTIVE",)
    import_sites(feeding, SITES + B)
    assert set(feeding.rows("SELECT data->>'status' FROM {panda}.schedconfig_json")) == {("online",)}
    assert feeding.rows(closed) == [("N", "N"), ("N", "N")]


def test_queues_that_came_from_elsewhere_are_left_alone(feeding: Feeding) -> None:
    feeding.grid(2)
    import_sites(feeding, SITES)
    import_sites(feeding, SITES.replace("A_CE", "A2_CE"))
    query = "SELECT panda_queue, data->>'status' FROM {panda}.schedconfig_json ORDER BY 1"
    assert dict(feeding.rows(query)) == {
        "A2_CE": "online",
        "A_CE": "offline",
        "QUEUE_0000": "online",
        "QUEUE_0001": "online",
    }


def test_space_that_the_file_lacks_is_left_to_rucio(feeding: Feeding) -> None:
    import_sites(feeding, SITES)
    import_sites(feeding, SITES.replace("{total_tb: 11, free_tb: 5.5}", "{}"))
    assert feeding.rows("SELECT space_free FROM {panda}.ddm_endpoint") == [(5122,)]


def test_a_file_with_a_fault_changes_nothing_and_raises_an_alarm(feeding: Feeding) -> None:
    import_sites(feeding, SITES)
    with pytest.raises(FeedAlarm, match=r"wrong_value: line 4: sites\.A\.queues\.A_CE\.cores: 'x' is no whole number"):
        import_sites(feeding, SITES.replace("cores: 8", "cores: x"))
    assert feeding.rows("SELECT data->>'corecount' FROM {panda}.schedconfig_json") == [("8",)]
    assert feeding.last("sites").documents[0]["code"] == "wrong_value"
    with pytest.raises(FeedAlarm, match="cannot be read"):
        feeding.run(SitesAgent(SitesOptions(file=feeding.folder / "none.yaml"), PROCESS))
    with pytest.raises(Refused, match="nothing to read"):
        feeding.run(SitesAgent(SitesOptions(), PROCESS))
