"""Feeds tasks whose input is not whole yet: checks datasets when they are due, takes new files, and starts tasks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Literal

import sqlalchemy as sa

from agents.tasks.input_sources import CatalogueUnavailable, InputSources
from broker.domain.instants import naive
from broker.store.connection.tables import Names
from broker.tasks.model.selection import Limits, selected
from broker.tasks.model.task import InputFile
from broker.tasks.statements import chains
from broker.tasks.statements.chains import Feed, Producer
from broker.tasks.statements.contents import add_files
from broker.tasks.statements.sequences import extend_sequence

Looked = Literal["whole", "grown", "waiting", "broken"]
"""The outcome of checking a dataset."""
ENDED_WELL = ("done", "finished")
ENDED_BADLY = ("failed", "broken", "aborted", "tobroken", "toabort", "aborting")
AGAIN_AFTER = timedelta(minutes=2)
"""Minimum time between two requests to Rucio about a dataset that had nothing new."""
OWN_AGAIN_AFTER = timedelta(seconds=10)
"""The same for a dataset that a task of this installation writes."""


def feed_tasks(
    connection: sa.Connection,
    names: Names,
    sources: InputSources,
    now: datetime,
    tasks: Sequence[int] | None = None,
    most: int = 1000,
) -> Counter[str]:
    """Check the datasets that are due, in the caller's transaction; returns how many are whole, grew, wait, or broke.

    Args:
        connection: the caller's.
        names: the names of the schemas.
        sources: the contents of datasets at Rucio.
        now: aware.
        tasks: only these; None: all.
        most: the maximum number of datasets to check.
    """
    counts: Counter[str] = Counter(whole=0, grown=0, waiting=0, broken=0)
    for feed in chains.due_feeds(connection, names, now, most, tasks):
        counts.update(look_at(connection, names, sources, now, feed))
    return counts


def look_at(
    connection: sa.Connection, names: Names, sources: InputSources, now: datetime, feed: Feed
) -> tuple[Looked, ...]:
    """Check one dataset in the caller's transaction; nothing if another process is doing so, or has done so."""
    if not chains.lock_feed(connection, feed):
        return ()
    return (_Feeding(connection, names, sources, now, feed).look(),)


class _Feeding:
    """One check of one dataset."""

    def __init__(
        self, connection: sa.Connection, names: Names, sources: InputSources, now: datetime, feed: Feed
    ) -> None:
        self._connection, self._names, self._sources, self._feed = connection, names, sources, feed
        self._aware, self._now = now, naive(now)

    def look(self) -> Looked:
        """Check the dataset; returns whole, grown, waiting or broken."""
        feed = self._feed
        if feed.needs_parent and feed.parent_status not in ENDED_WELL:
            if feed.parent_status in ENDED_BADLY:
                return self._break(f"its parent, task {feed.parent}, ended as {feed.parent_status}")
            return self._wait(f"its parent, task {feed.parent}, is {feed.parent_status}", OWN_AGAIN_AFTER)
        did = (feed.scope, feed.name)
        if feed.source == "task":
            producer = chains.find_producer(self._connection, self._names, did)
            if producer is None:
                return self._break(f"no task writes {feed.datasetname} any more")
            return self._from_task(producer)
        try:
            dataset = self._sources.find(did)
            if dataset is None:
                return self._wait(f"{feed.datasetname} is not at Rucio", AGAIN_AFTER)
            if dataset.is_open and not feed.may_grow:
                return self._wait(f"{feed.datasetname} is still open at Rucio", AGAIN_AFTER)
            with self._connection.begin_nested():
                return self._take(self._sources.files(did), not dataset.is_open, AGAIN_AFTER)
        except CatalogueUnavailable as error:
            return self._wait(error.what, AGAIN_AFTER)

    def _from_task(self, producer: Producer) -> Looked:
        feed = self._feed
        if producer.status in ENDED_BADLY:
            return self._break(
                f"task {producer.jeditaskid}, which writes {feed.datasetname}, ended as {producer.status}"
            )
        if not (producer.closed or feed.may_grow):
            writer = f"task {producer.jeditaskid} ({producer.status}) writes it"
            return self._wait(f"{feed.datasetname} is still open: {writer}", OWN_AGAIN_AFTER)
        files = chains.written_files(self._connection, self._names, producer, feed)
        return self._take(files, producer.closed, OWN_AGAIN_AFTER)

    def _take(self, files: Iterator[InputFile], is_closed: bool, again: timedelta) -> Looked:
        """Take the new files; the dataset is whole when no more can come."""
        feed = self._feed
        taken = chains.names_taken(self._connection, self._names, feed)
        left = None if feed.most_files is None else feed.most_files - feed.files
        skipped = 0 if feed.files else feed.skipped
        events = None if feed.most_events is None else feed.most_events - feed.events
        limits = Limits(skipped, left, events, feed.events_a_file, taken)
        state = "closed" if is_closed else "mutable"
        chosen = selected(files, feed.plan, limits)
        added = add_files(self._connection, self._names, feed.terms, chosen, self._now, state=state)
        if feed.is_master and added.files:
            extend_sequence(self._connection, self._names, feed.jeditaskid, self._now)
        if is_closed:
            if not feed.files + added.files:
                return self._break(f"{feed.datasetname} has no file for it")
            chains.forget(self._connection, feed)
            self._start()
            return "whole"
        self._wait(f"{feed.datasetname} is still open, {feed.files + added.files} files so far", again)
        self._start()
        return "grown" if added.files else "waiting"

    def _start(self) -> None:
        chains.start(self._connection, self._names, [self._feed.jeditaskid], self._now)

    def _wait(self, reason: str, again: timedelta) -> Looked:
        chains.postpone(self._connection, self._feed, reason, self._aware, again)
        return "waiting"

    def _break(self, reason: str) -> Looked:
        """Break a task that has not started; one that has goes on with the files it has."""
        if self._feed.registered:
            chains.break_task(self._connection, self._names, self._feed.jeditaskid, reason, self._now)
            return "broken"
        add_files(self._connection, self._names, self._feed.terms, (), self._now, state="closed")
        chains.forget(self._connection, self._feed)
        return "whole"
