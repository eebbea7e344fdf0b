"""Documents whose addresses have a query: it is neither kept nor told, and no answer to another one is taken for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from agents.feeds.obtaining import FeedOptions, Obtained, obtain
from broker.store.connection.database import Database
from broker.store.snapshots.feed_documents import keep_document
from tests.agents.feeds.running import Feeding
from tests.feeds.documents import NOW
from tests.feeds.web_server import WebServer, says, serving

CHANGED_AT = "Sat, 01 Aug 2026 12:00:00 GMT"


def fetched(feeding: Feeding, server: WebServer, path: str) -> Obtained:
    """The document as a cycle gets it; a good one is on record afterwards."""
    context = feeding.context("cric")
    wanted = {"queues": server.address(path)}
    found = obtain(context, "cric", wanted, FeedOptions(tries=1), lambda document: 1)["queues"]
    if found.good is not None:
        with feeding.database.begin() as connection:
            keep_document(connection, "cric", found.good, NOW)
    return found


def test_a_query_is_not_kept(database: Database, tmp_path: Path) -> None:
    feeding = Feeding(database, tmp_path)
    with serving(says(200, b"{}", ETag='"1"', Last_Modified=CHANGED_AT), says(304)) as server:
        first = fetched(feeding, server, "/document?signature=secret")
        again = fetched(feeding, server, "/document?signature=secret")
        assert first.source == server.address() and "secret" not in str(first.output())
        refused = fetched(feeding, server, "/other?signature=secret").refused
        assert refused is not None and refused.where == f"queues at {server.address('/other')}"
    assert again.unchanged and server.asked[1]["If-None-Match"] == '"1"'


def test_an_answer_to_another_query_is_not_unchanged_by_its_time(database: Database, tmp_path: Path) -> None:
    feeding = Feeding(database, tmp_path)

    def answers(handler: Any) -> None:
        is_known = handler.headers["If-Modified-Since"] is not None
        says(304 if is_known else 200, b"" if is_known else b"{}", Last_Modified=CHANGED_AT)(handler)

    with serving(answers) as server:
        fetched(feeding, server, "/document?preset=a")
        assert fetched(feeding, server, "/document?preset=b").good is not None
        assert server.asked[1]["If-Modified-Since"] is None
        fetched(feeding, server, "/document")
        fetched(feeding, server, "/document")
        assert server.asked[3]["If-Modified-Since"] == CHANGED_AT
