"""Why a job waits, judged by the nodes that pilots presented; which presented nodes are stored."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from broker.errors import NOT_FOUND
from broker.matching.specs.node import Node
from broker.matching.specs.spec import Bounds, JobSpecs, Memory, Spec
from broker.matching.specs.tags import parse_tags
from broker.pilots.answers.why_job import WhyJob, why_job, why_specs
from broker.pilots.model.job_misses import wanted_tags
from broker.pilots.model.matcher import Pilot
from broker.pilots.statements.presented_nodes import (
    MOST_A_PART,
    MOST_NOTED,
    NodeNotes,
    note_pilot,
    read_seen,
    write_nodes,
)
from broker.store.connection.database import Database
from broker.store.query_context import NothingFound, QueryContext
from tests.cli.commands import runner
from tests.pilots.statements.test_job_match import LONG, add_jobs, follow
from tests.pilots.statements.test_node_match import ask
from tests.pilots.statements.test_running_limits import count, limit, run
from tests.pools.pool_grid import at, emptied, execute, publish_places, refresh, rows

NODE = Node("SITE_A", cores=8, ram_mb=8192, wall_time_s=86_400, tags=frozenset(("a",)))
HERE = replace(LONG, node=NODE)
ELSEWHERE = Pilot("SITE_B", "ce1", "QUEUE_B", node=replace(NODE, site="SITE_B", ram_mb=16_384))


@pytest.fixture
def database(shared_database: Database) -> Iterator[Database]:
    publish_places(emptied(shared_database))
    execute(shared_database, "TRUNCATE broker.presented_nodes, broker.presented_tags, doma_panda.worker_node CASCADE")
    refresh(shared_database, 0)
    yield shared_database


def note_nodes(database: Database, pilot: Pilot, count: int = 1, seconds: float = 0) -> None:
    notes = NodeNotes()
    for _ in range(count):
        notes.note(pilot, at(seconds))
    due_notes = notes.due()
    assert due_notes is not None
    with database.begin() as connection:
        write_nodes(Database.raw(connection), due_notes)


def add_waiting_job(database: Database, spec: Spec, pandaid: int = 100) -> None:
    ask(database, 11, JobSpecs((spec,), "lhcb").canonical)
    add_jobs(database, pandaid, jeditaskid=11, processingtype="evgen")
    follow(database)


def explain(database: Database, pandaid: int = 100, seconds: float = 60) -> WhyJob:
    with database.read_snapshot() as connection:
        return why_job(QueryContext(connection, database.names, at(seconds)), pandaid)


def test_the_best_value_seen_is_reported_with_its_site(database: Database) -> None:
    add_waiting_job(database, Spec(ram_request=Memory(12_000)))
    note_nodes(database, HERE, 400)
    note_nodes(database, replace(HERE, node=replace(NODE, ram_mb=4096)), 31)
    note_nodes(database, ELSEWHERE, 2)
    answer = explain(database)
    assert (answer.seen, answer.far, answer.fits, answer.panda_queue) == (433, 0, [], "QUEUE_A")
    assert [(miss.field, miss.asked, miss.best, miss.site, miss.kinds_of_nodes, miss.seen) for miss in answer.near] == [
        ("cpu.ram-mb.request", 12_000, 8192, "SITE_A", 2, 431),
        ("queue", "QUEUE_A", "QUEUE_B", "SITE_B", 1, 2),
    ]
    assert answer.sentences[1] == "cpu.ram-mb.request: 12,000 asked, 8,192 the most of 431 sightings, at SITE_A"


@pytest.mark.parametrize(
    ("spec", "near"),
    [
        (Spec(ram_request=Memory(8192)), None),
        (Spec(ram_request=Memory(8193)), ("cpu.ram-mb.request", "below", 8192)),
        (Spec(wall_time_s=86_401), ("wall-time", "below", 86_400)),
        (Spec(scratch_mb=1), ("io.scratch-mb", "unknown", None)),
        (Spec(banned_sites=("SITE_A",)), ("banned-sites", "banned", "SITE_A")),
        (Spec(tags=parse_tags("a & ~b")), None),
        (Spec(tags=parse_tags("b | c")), ("tags", "false", [])),
        (Spec(tags=parse_tags("b"), cores=Bounds(9)), "far"),
    ],
)
def test_each_kind_of_miss_and_both_sides_of_a_limit(database: Database, spec: Spec, near: Any) -> None:
    add_waiting_job(database, spec)
    note_nodes(database, HERE, 3)
    answer = explain(database)
    assert (bool(answer.fits), answer.far) == (near is None, 3 if near == "far" else 0)
    near_misses = [(miss.field, miss.kind, miss.best) for miss in answer.near]
    assert near_misses == ([near] if isinstance(near, tuple) else [])


def test_only_the_last_day_of_nodes_counts_but_tags_are_remembered(database: Database) -> None:
    add_waiting_job(database, Spec(tags=parse_tags("a & missing & T1 & ~other")))
    note_nodes(database, replace(HERE, node=replace(NODE, tags=frozenset(("a", "missing")))))
    day = timedelta(hours=24).total_seconds()
    assert explain(database, seconds=day - 1).seen == 1
    late = explain(database, seconds=day)
    assert late.seen == 0 and late.never_presented == ["T1"]
    assert late.sentences[0] == "nobody ever presented tag T1"
    execute(database, """UPDATE broker.resource_queues SET tags = '["T1"]' WHERE queue = 'long'""")
    assert explain(database, seconds=day).never_presented == [] and explain(database).fits
    assert wanted_tags(JobSpecs((Spec(tags=parse_tags("~(x & ~y) | z")),))) == ["y", "z"]


def test_the_nearest_of_several_specs_counts(database: Database) -> None:
    far, near = Spec(tags=parse_tags("b"), cores=Bounds(9)), Spec(wall_time_s=90_000)
    ask(database, 11, JobSpecs((far, near), "lhcb").canonical)
    add_jobs(database, 100, jeditaskid=11)
    note_nodes(database, HERE)
    assert [miss.field for miss in explain(database).near] == ["wall-time"]


def test_running_limits_and_jobs_that_do_not_wait(database: Database) -> None:
    run(database, 9000, 5)
    add_jobs(database, 1, processingtype="simul")
    add_jobs(database, 2, jobstatus="running")
    follow(database)
    limit(database, simul=5)
    count(database)
    assert explain(database, 1).sentences[0] == "simul at SITE_A: 5 of 5 run, and no token is free"
    assert explain(database, 2).sentences[0] == "the job is running: it does not wait for a pilot"
    with pytest.raises(NothingFound):
        explain(database, 77)


def test_pilots_without_a_node_and_known_hosts_of_sites_without_pilots(database: Database) -> None:
    add_waiting_job(database, Spec(architecture="x86_64", level_least=3))
    note_nodes(database, LONG)
    columns = "site, host_name, cpu_model, cpu_architecture, cpu_architecture_level, n_logical_cpus, total_memory, "
    values = f"'m', 'x86_64', 'x86_64-v3', 64, 256000, 1000, '{at(0).replace(tzinfo=None)}'"
    source = "FROM unnest(array['SITE_A', 'SITE_C']) AS site, generate_series(1, 7) AS n"
    table = f"doma_panda.worker_node ({columns} total_local_disk, last_seen)"
    execute(database, f"INSERT INTO {table} SELECT site, 'h' || n, {values} {source}")
    execute(
        database,
        "INSERT INTO doma_panda.worker_node_queue (site, host_name, panda_queue) SELECT site, host_name, 'QUEUE_A' "
        "FROM doma_panda.worker_node",
    )
    answer = explain(database)
    assert [(fit.site, fit.of, fit.kinds_of_nodes, fit.seen) for fit in answer.fits] == [("SITE_C", "hosts", 1, 7)]
    assert (answer.seen, answer.far) == (8, 1)
    with database.read_snapshot() as connection:
        hosts = [row for row in read_seen(Database.raw(connection), database.names, at(-1)) if row.kind == "hosts"]
    assert [(row.node.cores, row.node.ram_mb, row.node.scratch_mb, row.node.level) for row in hosts] == [
        (64, 256_000, 1_000_000, 3)
    ]


def test_similar_nodes_share_one_row_an_hour_which_keeps_the_largest(database: Database) -> None:
    notes = NodeNotes()
    for ram in (8100, 8192, 8199, 8200):
        notes.note(replace(HERE, node=replace(NODE, ram_mb=ram)), at(0))
    first = notes.due()
    assert first is not None and notes.due() is None
    notes.note(HERE, at(59))
    assert notes.due() is None
    notes.note(HERE, at(60))
    second = notes.due()
    assert second is not None
    with database.begin() as connection:
        for due_notes in (first, second):
            write_nodes(Database.raw(connection), due_notes)
    query = "SELECT (node ->> 'ram_mb')::int, requests FROM broker.presented_nodes ORDER BY 1"
    assert rows(database, query) == [(8199, 5), (8200, 1)]
    note_nodes(database, HERE, seconds=3600)
    assert len(rows(database, query)) == 3


def test_the_number_of_noted_nodes_is_bounded_and_invalid_characters_are_dropped(database: Database) -> None:
    notes = NodeNotes()
    for number in range(MOST_NOTED + 5):
        notes.note(replace(HERE, node=Node("SITE_A", ram_mb=10**6 + number * 10**5)), at(0))
    parts = [sum(part.columns["requests"]) for part in iter(notes.due, None)]
    assert sum(parts) == MOST_NOTED and max(parts) == MOST_A_PART
    strange = Node("SITE_A", cpu_vendor="in\x00tel\ud800", tags=frozenset(("a\x00b", "c\ud800")))
    with database.begin() as connection:
        note_pilot(Database.raw(connection), replace(HERE, node=strange), at(0))
    assert rows(database, "SELECT tag FROM broker.presented_tags ORDER BY 1") == [("ab",), ("c",)]


def test_the_command_for_jobs_files_and_nodes(
    database: Database, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broker = runner(capsys, "--db", database.url)
    execute(database, "UPDATE broker.presented_nodes SET last_seen_at = now()")
    spec, node = tmp_path / "job.json", tmp_path / "node.json"
    spec.write_text(json.dumps({"requirements": {"cpu": {"num_cores": {"min": 9}}}}))
    node.write_text(
        json.dumps({"site": "SITE_A", "cpu": {"num_cores": 8, "architecture": {"name": "x86_64"}}, "tags": ["a"]})
    )
    match_job = ("match-job", "--site", "SITE_A", "--ce", "ce1", "--queue", "long", "--node", str(node), "--json")
    assert broker(*match_job).document["pandaid"] is None
    result = broker("match", "--job", str(spec), "--json")
    assert result.status == 0 and [miss["best"] for miss in result.document["near"]] == [8]
    assert "9 asked, 8 the most" in broker("match", "--job", str(spec)).out
    add_waiting_job(database, Spec(cores=Bounds(8)))
    assert broker("match", "--job", "100", "--json").document["fits"][0]["panda_queue"] == "QUEUE_A"
    assert broker("match", "--job", "101").status == NOT_FOUND
    at_node = broker("match", "--job", str(spec), "--node", str(node), "--json").document
    assert not at_node["match"] and at_node["missed"][0]["field"] == "cpu.num_cores.min"
    for architecture, fits in (("#x86_64", True), ("#aarch64", False), ("&nvidia", False)):
        assert broker("match", architecture, "--node", str(node), "--json").document["match"] is fits
    node.write_text(json.dumps({"site": "SITE_A", "gpu": {"count": 2, "vendor": "NVIDIA", "model": "A100"}}))
    assert broker("match", "&nvidia", "--node", str(node), "--json").document["match"]
    wrong_arguments = [
        ("match",), ("match", "#x86_64", "--job", "1"), ("match", "--job", "1", "--queue", "QUEUE_A"),
        ("match", "--job", str(spec), "--container", "c"), ("match", "&:", "--node", str(node)),
        ("match", "--job", str(tmp_path / "none.yaml")),
    ]  # fmt: skip
    assert [broker(*arguments).status for arguments in wrong_arguments] == [2] * len(wrong_arguments)


def test_specs_without_a_job_are_judged_at_every_queue(database: Database) -> None:
    note_nodes(database, HERE)
    note_nodes(database, ELSEWHERE, 2)
    with database.read_snapshot() as connection:
        context = QueryContext(connection, database.names, at(60))
        specs = JobSpecs((Spec(ram_request=Memory(8192)),))
        assert [(fit.panda_queue, fit.seen) for fit in why_specs(context, specs).fits] == [
            ("QUEUE_B", 2),
            ("QUEUE_A", 1),
        ]
