"""The feeds from Rucio: what they ask for and when, what they write, and what failures leave unchanged."""

from __future__ import annotations

import dataclasses
import threading
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from agents.feeds.by_hand import ReplicaFileOptions, ReplicaImport
from agents.feeds.importing import FeedAlarm
from agents.feeds.rucio_connection import gather
from agents.feeds.rucio_replicas import ReplicaOptions, RucioReplicasAgent
from agents.feeds.rucio_usage import QuotaOptions, RucioQuotaAgent, RucioSpaceAgent, SpaceOptions
from broker.errors import Refused
from broker.feeds.model.rucio.questions import LastReply, Questions, ask
from broker.feeds.model.rucio.space import GB
from broker.simulation.model.demo.grid_documents import GridSize, endpoint_name, rse_usage
from broker.store.connection.database import Database
from broker.store.connection.tables import TableCatalogue
from broker.store.reads.replica_reads import read_catalogue
from broker.work.catalogue import has_answer
from tests.agents.feeds.fake_rucio import FakeRucio, replica
from tests.agents.feeds.running import PROCESS, Feeding
from tests.agents.feeds.wanting import insert, want
from tests.feeds.documents import NOW


@pytest.fixture
def feeding(database: Database, tmp_path: Path) -> Feeding:
    return Feeding(database, tmp_path)


@pytest.fixture
def rucio() -> FakeRucio:
    return FakeRucio()


def agent(rucio: FakeRucio, **options: Any) -> RucioReplicasAgent:
    return RucioReplicasAgent(ReplicaOptions(**{"requests_per_s": 10_000, **options}), PROCESS, lambda _: rucio)


def did(name: str) -> tuple[str, str]:
    return "mc23", name


def replica_rows(feeding: Feeding) -> list[tuple[Any, ...]]:
    return feeding.rows("SELECT name, rse, available_files FROM {broker}.dataset_replicas ORDER BY 1, 2")


def unanswered_datasets(feeding: Feeding, *names: str) -> list[str]:
    with feeding.database.read_snapshot() as connection:
        catalogue = TableCatalogue.read(connection, feeding.database.names)
        answer = read_catalogue(connection, catalogue, tuple(did(name) for name in names))
    with_replicas = frozenset(answer.replicas.did.tolist())
    return [name for at, name in enumerate(names) if not has_answer(answer, at, with_replicas)]


def test_only_the_input_of_tasks_that_need_brokerage_is_asked_for(feeding: Feeding, rucio: FakeRucio) -> None:
    for number, status in enumerate(("assigning", "ready", "scouting", "running", "pending", "finished", "defined"), 1):
        want(feeding.database, number, f"mc23:{status}", status=status)
    want(feeding.database, 20, "mc23:nofiles", files=0)
    want(feeding.database, 21, "pseudo_dataset")
    feeding.run(agent(rucio, requests_in_flight=1))
    names = [about[1] for question, about in rucio.asked if question == "metadata"]
    assert names == ["assigning", "ready", "scouting", "running", "pending"]


def test_datasets_that_are_needed_soonest_come_first(feeding: Feeding, rucio: FakeRucio) -> None:
    for number, (name, priority, status) in enumerate(
        [("low", 1, "ready"), ("high", 900, "ready"), ("none", None, "ready"), ("waits", 999, "pending")], 1
    ):
        want(feeding.database, number, f"mc23:{name}", currentpriority=priority, status=status)
    feeding.run(agent(rucio, requests_in_flight=1))
    assert [about[1] for question, about in rucio.asked if question == "metadata"] == ["high", "low", "none", "waits"]


def test_not_asked_and_not_known_are_different(feeding: Feeding, rucio: FakeRucio) -> None:
    rucio.replicas = {did("a"): [replica("DISK")]}
    assert unanswered_datasets(feeding, "a", "b") == [], "nobody feeds the catalogue"
    want(feeding.database, 1, "mc23:a")
    feeding.run(agent(rucio))
    assert unanswered_datasets(feeding, "a", "b") == ["b"]
    want(feeding.database, 2, "mc23:b")
    feeding.run(agent(rucio))
    assert unanswered_datasets(feeding, "a", "b") == []
    assert feeding.rows("SELECT name, outcome FROM {broker}.replica_requests ORDER BY 1") == [
        ("a", "found"), ("b", "not_found"),
    ]  # fmt: skip


def test_a_container_counts_when_all_its_constituents_were_asked_for(feeding: Feeding, rucio: FakeRucio) -> None:
    rucio.containers = {did("box"): [did("in1"), did("in2")]}
    rucio.replicas = {did("in1"): [replica("DISK")], did("in2"): [replica("DISK", 2)]}
    rucio.failing = {did("in2")}
    want(feeding.database, 1, "mc23:box/")
    feeding.run(agent(rucio))
    assert unanswered_datasets(feeding, "box") == ["box"] and replica_rows(feeding) == [("in1", "DISK", 5)]
    rucio.failing = set()
    feeding.run(agent(rucio), NOW + timedelta(minutes=2))
    assert unanswered_datasets(feeding, "box") == [] and ("in2", "DISK", 2) in replica_rows(feeding)


def test_a_bounded_number_of_questions_waits_at_the_same_time(feeding: Feeding, rucio: FakeRucio) -> None:
    for number in range(12):
        want(feeding.database, 1 + number, f"mc23:d{number}")
    rucio.meeting = threading.Barrier(3)
    report = feeding.run(agent(rucio, requests_in_flight=3))
    assert rucio.most_at_once == 3 and report.counts["not_found"] == 12


def test_no_transaction_is_open_while_rucio_is_asked(feeding: Feeding, rucio: FakeRucio) -> None:
    held_by = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in%'"
    observations = []
    rucio.before = lambda question: observations.append((question, feeding.rows(held_by)))
    rucio.replicas = {did("a"): [replica("DISK")]}
    want(feeding.database, 1, "mc23:a")
    feeding.run(agent(rucio, requests_in_flight=1))
    assert {question for question, _ in observations} >= {"endpoints", "metadata", "replicas"}
    assert {open_transactions for _, (open_transactions,) in observations} == {(0,)}, (
        "no brokerage cycle ever waits for an answer of Rucio"
    )


def test_a_closed_dataset_that_stays_costs_one_question(feeding: Feeding, rucio: FakeRucio) -> None:
    rucio.replicas = {did("closed"): [replica("DISK")], did("open"): [replica("DISK")]}
    rucio.open = {did("open")}
    want(feeding.database, 1, "mc23:closed")
    want(feeding.database, 2, "mc23:open")
    feeding.run(agent(rucio))
    rucio.asked.clear()
    report = feeding.run(agent(rucio), NOW + timedelta(hours=1))
    questions = [question for question, about in rucio.asked if about == did("closed")]
    assert questions == ["replicas"] and report.counts["changed"] == 0
    assert ("metadata", did("open")) in rucio.asked


def test_nothing_is_asked_before_its_time(feeding: Feeding, rucio: FakeRucio) -> None:
    rucio.replicas = {did("a"): [replica("DISK")]}
    want(feeding.database, 1, "mc23:a")
    feeding.run(agent(rucio))
    rucio.asked.clear()
    feeding.run(agent(rucio), NOW + timedelta(seconds=299))
    assert [question for question, _ in rucio.asked] == ["endpoints"]
    feeding.run(agent(rucio), NOW + timedelta(seconds=300))
    assert ("replicas", did("a")) in rucio.asked


def test_without_an_answer_known_replicas_stay(feeding: Feeding, rucio: FakeRucio) -> None:
    rucio.replicas = {did("a"): [replica("DISK")]}
    want(feeding.database, 1, "mc23:a")
    feeding.run(agent(rucio))
    rucio.failing = {did("a")}
    with pytest.raises(FeedAlarm, match="unreachable"):
        feeding.run(agent(rucio), NOW + timedelta(hours=1))
    assert replica_rows(feeding) == [("a", "DISK", 5)] and unanswered_datasets(feeding, "a") == []
    assert feeding.rows("SELECT failures FROM {broker}.replica_requests") == [(1,)]
    assert feeding.last().outcome == "refused"


def test_a_server_that_is_gone_is_not_asked_forever(feeding: Feeding, rucio: FakeRucio) -> None:
    for number in range(50):
        want(feeding.database, 1 + number, f"mc23:d{number}")
    rucio.failing = {"metadata"}
    with pytest.raises(FeedAlarm):
        feeding.run(agent(rucio, requests_in_flight=1))
    assert len([1 for question, _ in rucio.asked if question == "metadata"]) == 10


@pytest.mark.parametrize(("lost", "believed"), [(12, True), (13, False)])
def test_datasets_that_vanish_all_at_once_are_not_believed(
    feeding: Feeding, rucio: FakeRucio, lost: int, believed: bool
) -> None:
    names = [f"d{number:02d}" for number in range(24)]
    for number, name in enumerate(names, 1):
        want(feeding.database, number, f"mc23:{name}", files=1)
    rucio.replicas = {did(name): [replica("DISK")] for name in names}
    feeding.run(agent(rucio))
    for name in names[:lost]:
        rucio.replicas[did(name)] = []
    if believed:
        feeding.run(agent(rucio), NOW + timedelta(hours=1))
        assert len(replica_rows(feeding)) == 24 - lost
        return
    with pytest.raises(FeedAlarm, match="13 of 24 datasets have lost all replicas"):
        feeding.run(agent(rucio), NOW + timedelta(hours=1))
    assert len(replica_rows(feeding)) == 24


def test_single_files_come_and_go(feeding: Feeding, rucio: FakeRucio) -> None:
    rucio.replicas = {did("a"): [replica("DISK", 1), replica("TAPE")]}
    rucio.files = {
        did("a"): [
            {"scope": "mc23", "name": "a.0", "states": {"DISK": "AVAILABLE", "TAPE": "AVAILABLE"}},
            {"scope": "mc23", "name": "a.1", "states": {"TAPE": "AVAILABLE", "DISK": "COPYING"}},
        ]
    }
    want(feeding.database, 1, "mc23:a")
    feeding.run(agent(rucio))
    files = "SELECT name, rse FROM {broker}.file_replicas ORDER BY 1, 2"
    assert feeding.rows(files) == [("a.0", "DISK"), ("a.0", "TAPE"), ("a.1", "TAPE")]
    rucio.replicas = {did("a"): [replica("DISK"), replica("TAPE")]}
    feeding.run(agent(rucio), NOW + timedelta(hours=1))
    assert feeding.rows(files) == [], "the dataset is complete on disk"


@pytest.mark.parametrize(("most", "looked_up"), [(5, True), (4, False)])
def test_a_large_dataset_is_not_looked_up_file_by_file(
    feeding: Feeding, rucio: FakeRucio, most: int, looked_up: bool
) -> None:
    rucio.replicas = {did("a"): [replica("DISK", 1)]}
    want(feeding.database, 1, "mc23:a")
    feeding.run(agent(rucio, most_files=most))
    assert (("files", did("a")) in rucio.asked) == looked_up


def test_virtual_placements_are_asked_for_where_they_are_wanted(feeding: Feeding, rucio: FakeRucio) -> None:
    rucio.replicas = {did("a"): [replica("DISK")]}
    rucio.virtual = {did("a"): [{"vp": True, "site": "X"}]}
    want(feeding.database, 1, "mc23:a")
    feeding.run(agent(rucio, virtual_placement=True))
    assert feeding.rows("SELECT rse, state FROM {broker}.dataset_replicas ORDER BY 1") == [
        ("DISK", "AVAILABLE"), ("X_VP_DISK", "VP"),
    ]  # fmt: skip


def test_alongside_panda_replicas_and_quotas_are_fed(feeding: Feeding, rucio: FakeRucio) -> None:
    want(feeding.database, 1, "mc23:a", prodsourcelabel="user", username="alice")
    feeding.rows("UPDATE {broker}.installation SET mode = 'beside' RETURNING 1")
    rucio.replicas = {did("a"): [replica("DISK")]}
    rucio.accounts = {"alice": ([{"rse": "DISK", "bytes": 1, "bytes_limit": 2}], [])}
    feeding.run(agent(rucio))
    feeding.run(RucioQuotaAgent(QuotaOptions(requests_per_s=1000), PROCESS, lambda _: rucio))
    assert replica_rows(feeding) and feeding.rows("SELECT account FROM {broker}.rucio_local_usage") == [("alice",)]
    with pytest.raises(Refused, match="PanDA's own tables"):
        feeding.run(RucioSpaceAgent(SpaceOptions(), PROCESS, lambda _: rucio))


def test_quotas_of_accounts_that_do_not_answer_stay(feeding: Feeding, rucio: FakeRucio) -> None:
    user = {"status": "ready", "prodsourcelabel": "user"}
    insert(
        feeding.database,
        "jedi_tasks",
        [
            {**user, "jeditaskid": 1, "username": "alice", "workinggroup": "GP"},
            {**user, "jeditaskid": 2, "username": "bob"},
            {**user, "jeditaskid": 3, "username": "carl", "status": "done"},
        ],
    )
    rucio.accounts = {
        "alice": (
            [{"rse": "DISK", "bytes": 1, "bytes_limit": 2}],
            [{"rse_expression": "t=2", "bytes": 3, "bytes_limit": 4}],
        ),
        "bob": ([{"rse": "DISK", "bytes": 5, "bytes_limit": -1}], []),
    }
    quota = RucioQuotaAgent(QuotaOptions(requests_per_s=1000), PROCESS, lambda _: rucio)
    feeding.run(quota)
    local = "SELECT * FROM {broker}.rucio_local_usage ORDER BY 1"
    assert feeding.rows(local) == [("alice", "DISK", 1, 2), ("bob", "DISK", 5, None)]
    assert ("local", "GP") in rucio.asked and ("local", "carl") not in rucio.asked
    rucio.accounts["alice"] = ([], [])
    rucio.failing = {"bob"}
    with pytest.raises(FeedAlarm, match="no answer to 1 of 3 questions"):
        feeding.run(quota, NOW + timedelta(hours=1))
    assert feeding.rows(local) == [("bob", "DISK", 5, None)]


@pytest.mark.parametrize(("failing", "used_s", "why"), [(2, 0.0, "no answer to 2 of 12"), (0, 43.0, "is used up")])
def test_space_of_endpoints_without_an_answer_stays_and_raises_an_alarm(
    feeding: Feeding, rucio: FakeRucio, failing: int, used_s: float, why: str
) -> None:
    feeding.grid(8)
    names = [endpoint_name(site, 0) for site in range(4)]
    rucio.usage = {name: [{"source": "storage", "used": GB, "free": GB, "updated_at": NOW}] for name in names}
    rucio.failing = set(names[:failing])
    space = RucioSpaceAgent(SpaceOptions(requests_per_s=10_000, requests_in_flight=1), PROCESS, lambda _: rucio)
    with pytest.raises(FeedAlarm, match=why):
        feeding.run(space, monotonic=lambda: used_s, started=0.0)
    known = feeding.rows("SELECT ddm_endpoint_name FROM {panda}.ddm_endpoint WHERE space_used = 1 ORDER BY 1")
    assert [row[0] for row in known] == (names[failing:] if failing else [])


def test_the_order_of_questions_differs_from_cycle_to_cycle(feeding: Feeding) -> None:
    firsts = set()
    for seed in range(8):
        context = dataclasses.replace(feeding.context("test"), seed=seed)
        gathered = gather(context, "test", [str(number) for number in range(20)], str.upper, 1)
        firsts.add(next(iter(gathered.answers)))
        assert len(gathered.answers) == 20 and gathered.refused is None
    assert len(firsts) > 1


def test_space_from_a_dump(feeding: Feeding) -> None:
    feeding.grid(8)
    dump = feeding.write("space", rse_usage(GridSize(8), NOW))
    feeding.run(RucioSpaceAgent(SpaceOptions(address=dump), PROCESS))
    name = endpoint_name(0, 0)
    assert feeding.rows(
        "SELECT space_used, space_free, space_expired, type, blacklisted_write FROM {panda}.ddm_endpoint "
        f"WHERE ddm_endpoint_name = '{name}'"
    ) == [(300 * 10**12 // GB, 500 * 10**12 // GB, 20 * 10**12 // GB, "DATADISK", "Y")]
    assert feeding.rows("SELECT count(*) FROM {broker}.feed_changes WHERE run_id = 2") == [(0,)], "a measure, no fact"


@pytest.mark.parametrize(
    ("content", "code"),
    [({}, "empty"), (b"<html>", "html"), ({"X": {"storage": {"used": -1, "free": 0}}}, "too_many_left_out")],
)
def test_an_implausible_dump_is_refused(feeding: Feeding, content: Any, code: str) -> None:
    feeding.grid(8)
    if code == "too_many_left_out":
        content = {endpoint_name(0, 0): content["X"]}
    dump = feeding.write("space", content)
    with pytest.raises(FeedAlarm, match=code):
        feeding.run(RucioSpaceAgent(SpaceOptions(address=dump), PROCESS))
    assert feeding.rows("SELECT DISTINCT space_used FROM {panda}.ddm_endpoint") == [(None,)]


def test_replicas_by_hand_from_a_file(feeding: Feeding) -> None:
    dataset = {
        "scope": "mc23",
        "name": "a",
        "metadata": {"did_type": "DATASET", "length": 5},
        "replicas": [replica("DISK")],
    }
    path = feeding.write("replicas", {"datasets": [dataset, {"scope": "mc23", "name": "b", "metadata": None}]})
    files = ReplicaImport(ReplicaFileOptions(address=path), PROCESS)
    files.cycle(feeding.context("rucio_replicas", lease=None))
    assert replica_rows(feeding) == []
    report = feeding.run(files)
    assert replica_rows(feeding) == [("a", "DISK", 5)] and report.counts["added"] == 2
    assert feeding.run(files).counts["unchanged"] == 2


@pytest.mark.parametrize(
    "content",
    [{"datasets": 5}, {"datasets": [{"name": "x"}]}, {"x": 1}, {"datasets": [{"scope": "s", "name": "n", "files": 3}]}],
)
def test_files_without_replicas_are_refused(feeding: Feeding, content: Any) -> None:
    with pytest.raises(FeedAlarm, match="wrong_type"):
        feeding.run(ReplicaImport(ReplicaFileOptions(address=feeding.write("replicas", content)), PROCESS))


def test_files_are_asked_for_while_the_daemons_have_not_counted_a_new_dataset() -> None:
    did = ("mc23", "new")
    for available, questions in ((0, ["replicas", "deep"]), (1, ["replicas"])):
        rucio = FakeRucio(replicas={did: [replica("DISK", available)]})
        ask(rucio, did, LastReply(), {}, Questions())
        assert [question for question, _ in rucio.asked if question in ("replicas", "deep")] == questions


def test_a_dataset_that_vanishes_before_its_files_are_asked_for_is_not_at_rucio() -> None:
    did = ("mc23", "gone")
    rucio = FakeRucio(replicas={did: [replica("DISK", 3)]})
    rucio.before = lambda question: rucio.replicas.clear() if question == "files" else None
    answer = ask(rucio, did, LastReply(), {}, Questions())
    assert rucio.asked[-1] == ("files", did)
    assert answer == ask(FakeRucio(), did, LastReply(), {}, Questions())
