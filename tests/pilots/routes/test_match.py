"""Jobs for pilots: each job is given once, and a repeated request gets the same job."""

from __future__ import annotations

import logging
import queue
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import monotonic
from typing import Any

import httpx
import pytest
import sqlalchemy as sa

from broker.api import envelope
from broker.matching.specs.spec import Bounds, GpuNeed, JobSpecs, Memory, Spec
from broker.pilots.routes.matcher_news import News, queues_of
from broker.pilots.routes.matchers import MOST_TOGETHER, group_size, waits_for_others_s
from broker.pilots.statements.presented_nodes import NodeNotes
from broker.pilots.statements.task_queue_views import Views
from broker.pools.statements.pool_registration import TaskRequirements, attach
from broker.store.connection.database import Database
from tests.api.serving import client_of, serving
from tests.pilots.statements.test_job_match import add_jobs, follow
from tests.pools.pool_grid import at, emptied, publish_places, refresh

PLACE = {"site": "SITE_A", "ce": "ce1", "queue": "long", "vo": "lhcb", "cpu_time_s": 1_000_000}
JOBS = 40
_NEWS = "FROM pg_stat_activity WHERE application_name LIKE '%news of a test'"
_END_THE_NEWS = f"SELECT pg_terminate_backend(pid) {_NEWS}"


@pytest.fixture
def client(shared_database: Database, tmp_path: Path) -> Iterator[httpx.Client]:
    publish_places(emptied(shared_database))
    refresh(shared_database, 0)
    with shared_database.begin() as connection:
        connection.execute(sa.text("TRUNCATE broker.matched_requests"))
    add_jobs(shared_database, 1, JOBS)
    follow(shared_database)
    with serving(shared_database, tmp_path) as server, client_of(server) as http_client:
        yield http_client


def match(client: httpx.Client, **changes: Any) -> dict[str, Any]:
    answer = client.post("/api/v1/jobs:match", json={**PLACE, **changes})
    assert answer.status_code == 200, answer.text
    document: dict[str, Any] = answer.json()
    return document


def count_sent(database: Database) -> int:
    with database.begin() as connection:
        query = sa.text("SELECT count(*) FROM doma_panda.jobsactive4 WHERE jobstatus = 'sent'")
        return int(connection.execute(query).scalar_one())


@pytest.fixture
def held(shared_database: Database) -> Iterator[None]:
    """Node n1 of the queue is held; the hold of n2 has ended."""
    with shared_database.begin() as connection:
        connection.exec_driver_sql("TRUNCATE broker.held_nodes")
        connection.exec_driver_sql("""
            INSERT INTO broker.held_nodes VALUES ('QUEUE_A', 'n1', now() + interval '10 min', 7, 7, 2),
                ('QUEUE_A', 'n2', now() - interval '1 min', 7, 7, 2)""")
    yield
    with shared_database.begin() as connection:
        connection.exec_driver_sql("TRUNCATE broker.held_nodes")


@pytest.mark.usefixtures("held")
def test_only_the_pilot_of_a_held_node_gets_no_job(client: httpx.Client, shared_database: Database) -> None:
    for host in ("n1", "slot1_2@n1"):
        answer = match(client, host=host)
        assert (answer["pandaid"], answer["reason"], answer["rejected"]) == (None, "avoid node", {})
    assert (
        match(client, host="n1", pilot="p1", request_number=1)["pandaid"] is None and count_sent(shared_database) == 0
    )
    assert all(match(client, **changes)["pandaid"] for changes in ({}, {"host": "n2"}, {"host": "slot1@n3"}))
    assert count_sent(shared_database) == 3


def test_a_job_avoids_the_node_where_its_input_failed(client: httpx.Client, shared_database: Database) -> None:
    with shared_database.begin() as connection:
        connection.exec_driver_sql(
            "INSERT INTO broker.held_jobs SELECT job, 'n1', 'QUEUE_A', '2099-01-01Z' FROM generate_series(1, 39) AS job"
        )
    assert match(client, host="slot1@n1", pilot="p1", request_number=1)["pandaid"] == JOBS
    answer = match(client, host="n1")
    assert (answer["pandaid"], answer["reason"], answer["node"]) == (None, "retry elsewhere", "n1")
    assert answer["held_until"] == "2099-01-01T00:00:00Z" and answer["rejected"] == {}
    assert match(client, host="n1", pilot="p1", request_number=1)["repeated"]
    jobs = [match(client, host="n2")["pandaid"], match(client)["pandaid"]]
    assert jobs == [1, 2] and count_sent(shared_database) == 3


def test_the_same_request_gets_the_same_job(client: httpx.Client, shared_database: Database) -> None:
    first = match(client, pilot="p1", request_number=1)
    assert first["pandaid"] and not first["repeated"]
    repeated = match(client, pilot="p1", request_number=1)
    assert (repeated["pandaid"], repeated["repeated"]) == (first["pandaid"], True) and count_sent(shared_database) == 1
    others = [match(client, pilot="p1", request_number=2), match(client, pilot="p2", request_number=1), match(client)]
    assert len({answer["pandaid"] for answer in (first, *others)}) == 4 and count_sent(shared_database) == 4


def test_concurrent_requests_get_each_job_once(client: httpx.Client, shared_database: Database) -> None:
    requests = [(f"p{number % 30}", 1) for number in range(3 * JOBS)]  # each request is sent several times
    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(lambda answer: match(client, pilot=answer[0], request_number=answer[1]), requests))
    by_pilot = {(pilot, answer["pandaid"]) for (pilot, _), answer in zip(requests, answers, strict=True)}
    assert len(by_pilot) == 30 == count_sent(shared_database)
    assert max(Counter(job for _, job in by_pilot).values()) == 1


def test_a_repeated_request_gets_its_job_when_no_jobs_wait(client: httpx.Client, shared_database: Database) -> None:
    first = match(client, pilot="p1", request_number=1)
    while match(client)["pandaid"] is not None:
        pass
    assert count_sent(shared_database) == JOBS
    empty = match(client, pilot="p9", request_number=9)
    assert empty["pandaid"] is None and empty["reason"]
    assert match(client, pilot="p1", request_number=1)["pandaid"] == first["pandaid"]


@pytest.mark.slow
def test_matchers_hear_of_new_jobs_and_reconnect(shared_database: Database) -> None:
    views = Views()

    def known() -> int:
        return 0 if views.groups.current is None else int(views.groups.current.holding.sum())

    def activate(first: int, queue: str) -> None:
        add_jobs(shared_database, first, computingsite=queue)
        follow(shared_database)

    emptied(shared_database)
    activate(1, "QUEUE_A")
    with shared_database.sibling("news of a test", 1) as database:
        views.groups.has_requests = True
        news = News(database, views, NodeNotes(), lambda: at(0))
        try:
            wait_until(lambda: known() == 1)  # starts by reading everything
            activate(1000, "QUEUE_C")
            wait_until(lambda: known() == 2)
            with shared_database.begin() as connection:
                connection.execute(sa.text(_END_THE_NEWS))
            wait_until(lambda: not listeners(shared_database))
            activate(2000, "QUEUE_D")  # without a listener
            wait_until(lambda: known() == 3)
        finally:
            news.close()


def listeners(database: Database) -> int:
    with database.begin() as connection:
        return int(connection.execute(sa.text(f"SELECT count(*) {_NEWS}")).scalar_one())


def wait_until(holds: Callable[[], bool]) -> None:
    give_up = monotonic() + 30
    while not holds():
        assert monotonic() < give_up


@pytest.mark.parametrize(
    ("payload", "queues"),
    [("[1,2]", {1, 2}), ("", None), ('["A",1]', None), ("[true]", None), ("{}", None), ("[]", set()), ("[", None)],
)
def test_a_message_names_some_or_all_task_queues(payload: str, queues: set[int] | None) -> None:
    assert queues_of(payload) == queues


def test_a_lost_connection_is_replaced(client: httpx.Client, shared_database: Database) -> None:
    first = match(client)
    with shared_database.begin() as connection:
        # parallel test processes have matchers on the same server
        query = """SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
            WHERE application_name LIKE '%matcher' AND datname = current_database()"""
        assert connection.execute(sa.text(query)).scalars().all() == [True, True]
    failure = client.post("/api/v1/jobs:match", json=PLACE)
    assert (failure.status_code, failure.json()["code"]) == (503, "database_unavailable")
    assert match(client)["pandaid"] not in (None, first["pandaid"]) and count_sent(shared_database) == 2


@pytest.mark.parametrize(
    ("waiting", "free", "size"),
    [
        (1, 3, 1), (15, 3, 15), (16, 3, 8), (18, 3, 9), (18, 2, 9), (16, 1, 16), (24, 3, 8), (40, 1, MOST_TOGETHER),
        (100, 3, 16),
    ],
)  # fmt: skip
def test_waiting_requests_are_shared_among_matchers_in_groups_worth_a_statement(
    waiting: int, free: int, size: int
) -> None:
    assert group_size(waiting, free) == size


@pytest.mark.parametrize(
    ("waiting", "free", "before", "wait_s"),
    [
        (1, 3, 0, 0.0), (1, 3, 1, 0.0), (1, 3, 2, 0.002), (2, 3, 2, 0.0), (1, 2, 1, 0.01), (7, 1, 16, 0.01),
        (8, 2, 16, 0.0), (0, 2, 3, 0.0),
    ],
)  # fmt: skip
def test_a_small_group_waits_for_a_busy_matcher_or_the_size_of_the_previous_group(
    waiting: int, free: int, before: int, wait_s: float
) -> None:
    assert waits_for_others_s(waiting, free, before) == wait_s


def test_a_number_needs_a_pilot(client: httpx.Client) -> None:
    answer = client.post("/api/v1/jobs:match", json={**PLACE, "request_number": 1})
    assert answer.status_code == 422


@pytest.mark.parametrize(
    ("body", "status", "location"),
    [
        ('{"site": "S", "ce": "c", "queue": "q", "colour": "red"}', 422, "body.colour"),
        ('{"site": "S", "ce": 3, "queue": "q"}', 422, "body.ce"),
        ('{"site": "S"', 400, "body"),
        ("[]", 422, "body"),
    ],
)
def test_a_bad_body_is_refused_alike_on_the_short_and_the_long_path(
    client: httpx.Client, body: str, status: int, location: str
) -> None:
    kinds = ("application/json", "application/json; charset=utf-8")
    answers = [client.post("/api/v1/jobs:match", content=body, headers={"Content-Type": kind}) for kind in kinds]
    assert [answer.status_code for answer in answers] == [status, status]
    short, long = (answer.json() for answer in answers)
    assert short["code"] == long["code"] and short["errors"][0]["where"].startswith(location)
    assert status == 400 or [error["where"] for error in short["errors"]] == [
        error["where"] for error in long["errors"]
    ]


def test_the_short_path_has_the_envelope_and_policy_of_all_routes(client: httpx.Client) -> None:
    answer = client.post("/api/v1/jobs:match", json=PLACE, headers={"X-Request-Id": "mine", "Idempotency-Key": "one"})
    assert answer.status_code == 200 and answer.headers["x-request-id"] == "mine"
    repeated = client.post("/api/v1/jobs:match", json=PLACE, headers={"Idempotency-Key": "one"})
    assert repeated.json() == answer.json() and repeated.headers["idempotent-replayed"] == "true"
    for headers, status in (({"Authorization": "Bearer other"}, 401), ({"Content-Encoding": "br"}, 415)):
        assert client.post("/api/v1/jobs:match", json=PLACE, headers=headers).status_code == status
    assert 'route="/api/v1/jobs:match"' in client.get("/metrics").text


def test_match_requests_are_logged_when_they_fail_or_are_slow(
    client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines: queue.Queue[tuple[str, int]] = queue.Queue()

    class Lines(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            fields: dict[str, Any] = vars(record)["fields"]
            lines.put((fields["path"], fields["status"]))

    path, log, handler = "/api/v1/jobs:match", logging.getLogger(envelope.__name__), Lines()
    monkeypatch.setattr(log, "level", logging.INFO)
    monkeypatch.setattr(log, "handlers", [handler])
    log.manager._clear_cache()  # type: ignore[attr-defined]
    assert client.post(path, json=PLACE).status_code == 200
    assert client.get("/health/live").status_code == 200
    assert lines.get(timeout=60) == ("/health/live", 200)
    client.post(path, json=PLACE, headers={"Authorization": "Bearer other"})
    assert lines.get(timeout=60) == (path, 401)
    with monkeypatch.context() as slow:
        slow.setattr(envelope, "SLOW_S", 0.0)
        client.post(path, json=PLACE)
        assert lines.get(timeout=60) == (path, 200)
    log.setLevel(logging.DEBUG)
    client.post(path, json=PLACE)
    assert lines.get(timeout=60) == (path, 200)
    log.setLevel(logging.NOTSET)


def test_a_node_is_presented_and_allotted(client: httpx.Client, shared_database: Database) -> None:
    specs = JobSpecs((Spec(cores=Bounds(1, 8), ram_request=Memory(4000, 3000)),), "lhcb").canonical
    with shared_database.begin() as connection:
        attach(connection, 7, None, TaskRequirements(specs=specs))
    add_jobs(shared_database, 700, jeditaskid=7, workinggroup="grp")
    follow(shared_database, 1)
    request = {"owner_group": "grp", "pilot": "p7", "request_number": 1}
    assert match(client, **request)["pandaid"] is None
    node = {"cpu": {"num_cores": 8, "ram_mb": 16_000}}
    first = match(client, **request, node=node)
    assert (first["pandaid"], first["allotted"]) == (
        700,
        {"cores": 4, "ram_mb": 16_000, "ram_limit_mb": None, "gpus": 0, "scratch_mb": None},
    )
    assert first["spec"] == 0
    repeated = match(client, **request, node=node)
    assert (repeated["repeated"], repeated["allotted"]) == (True, first["allotted"])


def test_a_pilot_fills_the_rest_of_its_node(client: httpx.Client, shared_database: Database) -> None:
    for task, spec in (
        (7, Spec(cores=Bounds(1, 4), ram_request=Memory(0, 2000))),
        (8, Spec(cores=Bounds(2, 4), ram_request=Memory(1000, 1500), gpu=GpuNeed(Bounds(1, 1)))),
    ):
        with shared_database.begin() as connection:
            attach(connection, task, None, TaskRequirements(specs=JobSpecs((spec,), "lhcb").canonical))
    add_jobs(shared_database, 700, 5, jeditaskid=7, workinggroup="cpu")
    add_jobs(shared_database, 800, 5, jeditaskid=8, workinggroup="gpu")
    follow(shared_database, 1)
    cores, ram_mb, gpus, outcomes = 16, 24_000, 1, []
    for number, group in enumerate(("gpu", "gpu", "cpu", "cpu", "cpu")):
        free = {"cpu": {"num_cores": cores, "ram_mb": ram_mb}, "gpu": {"count": gpus}}
        answer = match(client, owner_group=group, pilot="p", request_number=number, node=free)
        outcomes.append((answer["pandaid"] is not None, answer["reason"]))
        if answer["allotted"] is not None:
            cores -= answer["allotted"]["cores"]
            ram_mb -= answer["allotted"]["ram_mb"]
            gpus -= answer["allotted"]["gpus"]
    # the second request finds no free GPU; the last one finds cores but no memory
    assert outcomes == [(True, None), (False, "node"), (True, None), (True, None), (False, "node")]
    assert (cores, ram_mb, gpus) == (4, 1000, 0)


def test_a_wrong_node_is_refused_with_field_and_value(client: httpx.Client) -> None:
    for node, message in (({"wall_time": -1}, "wall_time: -1"), ({"system": {"glibc": 2.3}}, "system.glibc: 2.3")):
        answer = client.post("/api/v1/jobs:match", json={**PLACE, "node": node})
        assert answer.status_code == 422 and message in answer.text
