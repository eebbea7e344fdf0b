"""Documents whose addresses have a query: the query is never stored, and an answer belongs to its own query only."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from agents.feeds.obtaining import DocumentResult, FeedOptions, obtain
from broker.store.connection.database import Database
from broker.store.snapshots.feed_documents import keep_document
from tests.agents.feeds.running import Feeding
from tests.feeds.documents import NOW
from tests.fetching.web_server import WebServer, says, serving

CHANGED_AT = "Sat, 01 Aug 2026 12:00:00 GMT"


def fetch_document(feeding: Feeding, server: WebServer, path: str) -> DocumentResult:
    """The document as a cycle gets it; a good document is stored afterwards."""
    context = feeding.context("cric")
    addresses = {"queues": server.address(path)}
    obtained = obtain(context, "cric", addresses, FeedOptions(tries=1), lambda document: 1)["queues"]
    if obtained.good is not None:
        with feeding.database.begin() as connection:
            keep_document(connection, "cric", obtained.good, NOW)
    return obtained


def test_a_query_is_not_stored(database: Database, tmp_path: Path) -> None:
    feeding = Feeding(database, tmp_path)
    with serving(says(200, b"{}", ETag='"1"', Last_Modified=CHANGED_AT), says(304)) as server:
        first = fetch_document(feeding, server, "/document?signature=secret")
        second = fetch_document(feeding, server, "/document?signature=secret")
        assert first.source == server.address() and "secret" not in str(first.output())
        refused = fetch_document(feeding, server, "/other?signature=secret").refused
        assert refused is not None and refused.where == f"queues at {server.address('/other')}"
    assert second.unchanged and server.asked[1]["If-None-Match"] == '"1"'


def test_an_unchanged_time_of_another_query_does_not_count(database: Database, tmp_path: Path) -> None:
    feeding = Feeding(database, tmp_path)

    def answers(handler: Any) -> None:
        is_known = handler.headers["If-Modified-Since"] is not None
        says(304 if is_known else 200, b"" if is_known else b"{}", Last_Modified=CHANGED_AT)(handler)

    with serving(answers) as server:
        fetch_document(feeding, server, "/document?preset=a")
        assert fetch_document(feeding, server, "/document?preset=b").good is not None
        assert server.asked[1]["If-Modified-Since"] is None
        fetch_document(feeding, server, "/document")
        fetch_document(feeding, server, "/document")
        assert server.asked[3]["If-Modified-Since"] == CHANGED_AT
