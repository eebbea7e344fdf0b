"""The feed from CRIC on a real database: tables, history, refusals, ages."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from agents.feeds.cric import CricAgent, CricOptions
from agents.feeds.importing import FeedAlarm
from agents.service import fault_points
from broker.errors import Refused
from broker.feeds.statements.feed_runs import changes_of_queue
from broker.grid.answers.queues import places
from broker.simulation.model.demo.grid_documents import GridSize, cric_documents, endpoint_name, queue_name, site_name
from broker.snapshot.sources.links import LINKS
from broker.snapshot.sources.queues import QUEUES
from broker.snapshot.sources.slots import SLOTS
from broker.snapshot.sources.software import SOFTWARE
from broker.snapshot.sources.storages import STORAGES
from broker.store.connection.database import Database
from broker.store.connection.tables import TableCatalogue
from broker.store.query_context import QueryContext
from broker.store.snapshots.source_reads import SourceReader, read_sources
from tests.agents.feeds.running import PROCESS, Feeding
from tests.feeds.documents import NOW

TABLES = (
    "schedconfig_json",
    "sw_tags",
    "site",
    "panda_site",
    "ddm_endpoint",
    "panda_ddm_relation",
    "network_matrix_kv",
)


@pytest.fixture
def feeding(database: Database, tmp_path: Path) -> Feeding:
    return Feeding(database, tmp_path)


def counts(feeding: Feeding) -> list[int]:
    return [feeding.count(table) for table in TABLES]


def test_a_whole_grid(feeding: Feeding) -> None:
    feeding.grid(20)
    assert counts(feeding) == [20, 21, 10, 20, 30, 100, 100]
    assert feeding.rows(
        f"SELECT data->>'status', last_update FROM {{panda}}.schedconfig_json WHERE panda_queue = '{queue_name(16)}'"
    ) == [("test", NOW.replace(tzinfo=None))]
    assert feeding.rows(
        "SELECT site_name, type, is_tape, blacklisted, blacklisted_read, detailed_status FROM {panda}.ddm_endpoint "
        f"WHERE ddm_endpoint_name = '{endpoint_name(0, 0)}'"
    ) == [(site_name(0), "DATADISK", "N", "Y", "N", {"write_wan": "OFF"})]
    run = feeding.last()
    assert (run.outcome, run.by_hand, run.dropped_rows) == ("done", True, {})
    assert run.changes["schedconfig_json"]["added"] == 20


def test_a_second_run_changes_only_what_differs_and_records_it(feeding: Feeding) -> None:
    documents = feeding.grid(20)
    queue = documents["queues"][queue_name(0)]
    queue["status"], queue["maxrss"] = "brokeroff", 9000
    del documents["queues"][queue_name(1)]
    del documents["sites"][site_name(9)]
    later = NOW + timedelta(hours=1)
    feeding.cric(documents, later)
    run = feeding.last()
    assert run.changes["schedconfig_json"] == {
        "added": 0, "changed": 1, "gone": 0, "unchanged": 18, "fields": {"maxrss": 1, "status": 1},
    }  # fmt: skip
    assert run.changes["site"]["gone"] == 1 and run.changes["panda_site"]["gone"] == 2
    assert run.changes["ddm_endpoint"]["gone"] == 3 and run.changes["panda_ddm_relation"]["gone"] == 15
    with feeding.database.begin() as connection:
        changes = changes_of_queue(connection, queue_name(0), 10)
    assert (changes[0].changed_at, dict(changes[0].fields)) == (
        later, {"status": ["online", "brokeroff"], "maxrss": [48_000, 9000]},
    )  # fmt: skip


@pytest.mark.parametrize(("days", "stays"), [(7, True), (7.01, False)])
def test_a_queue_that_is_no_longer_listed_stays_for_a_week(feeding: Feeding, days: float, stays: bool) -> None:
    documents = feeding.grid(20)
    del documents["queues"][queue_name(3)]
    feeding.cric({"queues": documents["queues"]}, NOW + timedelta(days=days))
    assert feeding.count("schedconfig_json") == 19 + stays


def test_names_with_quotes_are_names(feeding: Feeding) -> None:
    documents = feeding.grid(20)
    name = "o'brien\"; DROP TABLE site; --"
    queue = {**documents["queues"][queue_name(0)], "nickname": name, "cloud": name}
    feeding.cric({"queues": {**documents["queues"], name: queue}})
    query = "SELECT data->>'nickname' FROM {panda}.schedconfig_json WHERE data->>'cloud' = data->>'nickname'"
    assert feeding.rows(query) == [(name,)] and feeding.count("site") == 10
    with feeding.database.begin() as connection:
        assert [change.kind for change in changes_of_queue(connection, name, 10)] == ["added"]


def test_places_come_from_sites_and_their_centres_and_a_bad_one_is_named(feeding: Feeding) -> None:
    documents = feeding.grid(20)
    sites = documents["sites"]
    sites[site_name(0)] |= {"latitude": "46.2", "longitude": 6.1}
    sites[site_name(1)] |= {"rc_site": "CENTRE", "latitude": None}
    sites[site_name(2)] |= {"latitude": 0, "longitude": 0}
    centres = {"CENTRE": {"latitude": -37.8, "longitude": 145, "rc_tier_level": 2}, site_name(3): {"latitude": 1}}
    feeding.cric({"sites": sites, "resource_centres": centres})
    query = "SELECT site_name, latitude, longitude FROM broker.site_places ORDER BY latitude DESC"
    known = [(site_name(0), 46.2, 6.1), (site_name(1), -37.8, 145.0)]
    assert feeding.rows(query) == known
    with feeding.database.read_snapshot() as connection:
        names = feeding.database.names
        answer = places(QueryContext(connection, names, NOW))
    of_site = {name: place for name, place in answer.degrees.items() if place == (46.2, 6.1)}
    assert of_site and set(of_site) == {
        row[0]
        for row in feeding.rows(
            f"SELECT panda_queue FROM {{panda}}.schedconfig_json WHERE data->>'atlas_site' = '{site_name(0)}'"
        )
    }
    sites[site_name(0)]["latitude"] = 95
    report = feeding.cric({"sites": sites})
    assert f"such as {site_name(0)}: latitude: out_of_range: '95'" in report.notes[0]
    assert feeding.rows(query) == known and feeding.last().outcome == "done"


def test_a_queue_whose_record_is_broken_stays(feeding: Feeding) -> None:
    documents = feeding.grid(20)
    documents["queues"][queue_name(3)]["maxrss"] = -1
    report = feeding.cric({"queues": documents["queues"]}, NOW + timedelta(days=30))
    assert report.counts["left_out"] == 1 and report.notes == (
        f"left out 1 x negative of queues, such as {queue_name(3)}: maxrss: negative: '-1'",
    )
    assert feeding.count("schedconfig_json") == 20 and feeding.count("panda_ddm_relation") == 100
    assert feeding.last().dropped_rows == {"queues": {"negative": 1}}


BAD = {
    "html": b"<html><body>Please log in</body></html>",
    "empty": b"",
    "not_json": b'{"QUEUE_0000": {"panda_resource": "QUE',
    "not_utf8": b'{"a": "\xff"}',
    "too_deep": b"[" * 100_000,
    "wrong_type": b'["QUEUE_0000"]',
}


@pytest.mark.parametrize("code", BAD)
@pytest.mark.parametrize("name", ["queues", "sites", "endpoints", "tags"])
def test_an_invalid_document_changes_nothing_and_raises_an_alarm(feeding: Feeding, code: str, name: str) -> None:
    feeding.grid(20)
    before = counts(feeding)
    with pytest.raises(FeedAlarm, match=f"ALARM: feed cric: {code}"):
        feeding.run(CricAgent(CricOptions(documents={name: feeding.write(name, BAD[code])}), PROCESS))
    assert counts(feeding) == before
    assert {entry["document"]: entry["code"] for entry in feeding.last().documents if entry["code"]} == {name: code}


@pytest.mark.parametrize("name", ["queues", "sites", "endpoints", "tags", "closeness"])
def test_an_empty_document_never_deletes(feeding: Feeding, name: str) -> None:
    feeding.grid(20)
    before = counts(feeding)
    with pytest.raises(FeedAlarm, match="empty"):
        feeding.cric({name: [] if name == "closeness" else {}})
    assert counts(feeding) == before


@pytest.mark.parametrize(("left", "refused"), [(10, False), (9, True)])
def test_a_document_may_shrink_by_half(feeding: Feeding, left: int, refused: bool) -> None:
    documents = feeding.grid(20)
    fewer = dict(list(documents["queues"].items())[:left])
    if not refused:
        feeding.cric({"queues": fewer})
        return
    with pytest.raises(FeedAlarm, match="shrunk"):
        feeding.cric({"queues": fewer})
    assert feeding.count("panda_ddm_relation") == 100
    feeding.cric({"queues": fewer}, allow_shrink=True)
    assert feeding.count("panda_ddm_relation") == 45


def test_sites_that_all_turn_inactive_delete_nothing(feeding: Feeding) -> None:
    documents = feeding.grid(20)
    for site in documents["sites"].values():
        site["state"] = "DISABLED"
    before = counts(feeding)
    with pytest.raises(FeedAlarm, match="10 of 10 rows would go"):
        feeding.cric({"sites": documents["sites"]})
    assert counts(feeding) == before and feeding.last().outcome == "refused"


def test_too_many_broken_records_refuse_everything(feeding: Feeding) -> None:
    documents = feeding.grid(20)
    for number in range(5):
        documents["queues"][queue_name(number)]["maxrss"] = "much"
    documents["queues"][queue_name(9)]["status"] = "offline"
    with pytest.raises(FeedAlarm, match="too_many_left_out"):
        feeding.cric({"queues": documents["queues"]})
    assert feeding.rows(
        f"SELECT data->>'status' FROM {{panda}}.schedconfig_json WHERE panda_queue = '{queue_name(9)}'"
    ) == [("online",)]
    assert feeding.last().outcome == "refused" and feeding.last().dropped_rows == {"queues": {"wrong_type": 5}}


def test_a_refused_document_does_not_keep_the_others_out(feeding: Feeding) -> None:
    documents = feeding.grid(20)
    documents["queues"][queue_name(0)]["status"] = "offline"
    with pytest.raises(FeedAlarm, match="html"):
        feeding.cric({"queues": documents["queues"], "tags": BAD["html"]})
    assert feeding.last().outcome == "partial" and feeding.last().changes["schedconfig_json"]["changed"] == 1
    assert feeding.count("sw_tags") == 21


def test_endpoints_need_all_their_documents(feeding: Feeding) -> None:
    documents = cric_documents(GridSize(20), NOW)
    report = feeding.cric({name: documents[name] for name in ("endpoints", "sites", "queues")})
    assert feeding.count("ddm_endpoint") == 0 and feeding.count("site") == 10
    assert "ddm_endpoint was not written: closed_write, closed_read, endpoint_states never imported" in report.notes
    feeding.cric({name: documents[name] for name in ("closed_write", "closed_read", "endpoint_states")})
    assert feeding.count("ddm_endpoint") == 30, "the others are remembered"


def test_an_empty_list_of_closed_endpoints_opens_them(feeding: Feeding) -> None:
    feeding.grid(20)
    closed = "SELECT count(*) FROM {panda}.ddm_endpoint WHERE blacklisted_write = 'Y'"
    assert feeding.rows(closed) == [(1,)]
    feeding.cric({"closed_write": {}})
    assert feeding.rows(closed) == [(0,)]


def test_space_stays_when_endpoints_are_written(feeding: Feeding) -> None:
    documents = feeding.grid(20)
    feeding.rows("UPDATE {panda}.ddm_endpoint SET space_free = 77 RETURNING 1")
    documents["endpoints"][endpoint_name(1, 1)]["type"] = "OTHER"
    feeding.cric(documents, NOW + timedelta(minutes=5))
    assert feeding.rows("SELECT DISTINCT space_free FROM {panda}.ddm_endpoint") == [(77,)]


def test_a_dry_run_emits_objects_and_writes_nothing(feeding: Feeding) -> None:
    documents = cric_documents(GridSize(20), NOW)
    paths = {name: feeding.write(name, content) for name, content in documents.items()}
    agent = CricAgent(CricOptions(documents=paths), PROCESS)
    context = feeding.context("cric", lease=None)
    agent.cycle(context)
    assert counts(feeding) == [0] * 7 and feeding.rows("SELECT count(*) FROM {broker}.feed_runs") == [(0,)]
    added = {item["table"]: item["added"] for item in feeding.told if "table" in item}
    assert added["schedconfig_json"] == 20 and all(item["dry_run"] for item in feeding.told if "table" in item)


def test_everything_is_written_or_nothing(feeding: Feeding) -> None:
    documents = feeding.grid(20)
    documents["queues"][queue_name(0)]["status"] = "offline"
    calls: list[bool] = []

    def fail() -> None:
        calls.append(True)
        raise RuntimeError("the power is gone")

    fault_points.arm_action("after_write_before_commit", fail)
    with pytest.raises(RuntimeError):
        feeding.cric(documents)
    assert calls == [True]
    assert feeding.rows("SELECT count(*) FROM {panda}.schedconfig_json WHERE data->>'status' = 'offline'") == [(0,)]
    assert feeding.rows("SELECT count(*) FROM {broker}.feed_runs") == [(1,)]


def test_alongside_panda_its_tables_are_not_written(make_database: Any, tmp_path: Path) -> None:
    feeding = Feeding(make_database(), tmp_path)
    feeding.rows("UPDATE {broker}.installation SET mode = 'beside' RETURNING 1")
    with pytest.raises(Refused, match="would write PanDA's own tables"):
        feeding.cric(cric_documents(GridSize(4), NOW))


def test_the_snapshot_sees_how_old_each_document_is(feeding: Feeding) -> None:
    documents = feeding.grid(20)
    feeding.cric({"queues": documents["queues"], "tags": documents["tags"]}, NOW + timedelta(hours=2))
    with feeding.database.read_snapshot() as connection:
        reader = SourceReader(connection, TableCatalogue.read(connection, feeding.database.names), NOW)
        sources, _ = read_sources(reader, (QUEUES, SOFTWARE, STORAGES, LINKS, SLOTS))
    assert sources["queues"].newest == NOW, "sites are as old as that"
    assert sources["software"].newest == NOW + timedelta(hours=2)
    assert sources["storages"].newest == NOW and sources["links"].newest == NOW
    assert sources["slots"].newest is None
