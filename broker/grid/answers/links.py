"""Links from storages to nuclei, with the files queued on them against the cap."""

from __future__ import annotations

import json
import math
from bisect import bisect_right

from broker.errors import WRONG_USAGE, BrokerError
from broker.grid.answers.grid import LINK_CAP, last_snapshot, link_lines, tuning_in_force
from broker.grid.answers.models import LinkFilters, LinkLine, Links
from broker.store.query_context import QueryContext, known_name

_Position = tuple[float, str, str]


class BadLinkCursor(BrokerError):
    """The cursor is not a position in the list of links."""

    exit_status = WRONG_USAGE


def links(query: QueryContext, filters: LinkFilters | None = None) -> Links:
    """A page of the links that pass all filters, those with the most files first.

    Raises:
        NothingFound: there is no such source or nucleus; the error names the nearest.
        BadLinkCursor: the cursor of the page is no place in the list.
    """
    wanted = filters or LinkFilters()
    return page_of_links(every_link(query, wanted), wanted.after, wanted.limit)


def every_link(query: QueryContext, filters: LinkFilters) -> Links:
    """As :func:`links`, with all pages in one."""
    wanted, snapshot = filters, last_snapshot(query)
    if snapshot is None:
        return Links(now=query.now, snapshot=None, taken_at=None, cap_key=LINK_CAP, total=0, links=())
    sites, names = [str(one) for one in snapshot.links.sites], [str(one) for one in snapshot.nuclei.name]
    source = None if wanted.source is None else known_name("site", wanted.source, sites, "network_matrix_kv")
    nucleus = None if wanted.nucleus is None else known_name("nucleus", wanted.nucleus, names, "site")
    lines = [
        line for line in link_lines(snapshot, tuning_in_force(query), source, nucleus) if line.full or not wanted.full
    ]
    lines.sort(key=_position)
    return Links(
        now=query.now,
        snapshot=snapshot.id,
        taken_at=snapshot.taken_at,
        cap_key=LINK_CAP,
        total=len(lines),
        links=tuple(lines),
    )


def page_of_links(every: Links, after: str | None, limit: int) -> Links:
    """A page of links: at most ``limit`` links behind a place of the list, as given by ``next_after`` of a page.

    A snapshot taken between two pages moves links. The cursor holds the number of files of its place, so that links
    that did not move are neither skipped nor repeated. Pure.

    Raises:
        BadLinkCursor: ``after`` is no place of a list of links.
    """
    begin = 0 if after is None else bisect_right(every.links, _parse_position(after), key=_position)
    shown = every.links[begin : begin + limit]
    more = begin + len(shown) < len(every.links)
    following = json.dumps(_position(shown[-1]), separators=(",", ":")) if shown and more else None
    return every.model_copy(update={"links": shown, "next_after": following})


def _position(line: LinkLine) -> _Position:
    return -(line.queued_files or 0.0), line.source, line.nucleus


def _parse_position(text: str) -> _Position:
    try:
        match json.loads(text):
            case [int() | float() as files, str() as source, str() as nucleus] if math.isfinite(files):
                return float(files), source, nucleus
            case _:
                pass
    except (ValueError, OverflowError, RecursionError):
        pass
    raise BadLinkCursor("`after` is no place in the list of links", "after", "begin without one, go on with next_after")
