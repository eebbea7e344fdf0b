"""Links from storages to nuclei, with the files that queue on them against the cap."""

from __future__ import annotations

import json
import math
from bisect import bisect_right

from broker.errors import WRONG_USAGE, BrokerError
from broker.grid.answers.grid import LINK_CAP, last_snapshot, link_lines, tuning_in_force
from broker.grid.answers.models import LinkFilters, LinkLine, Links
from broker.store.query_context import Asking, known_name

_Place = tuple[float, str, str]


class BadLinkCursor(BrokerError):
    """A page of links is asked for behind something that is no place in them."""

    exit_status = WRONG_USAGE


def links(asking: Asking, filters: LinkFilters | None = None) -> Links:
    """The links for which all filters hold, those with most files first: a page of them.

    Raises:
        NothingFound: there is no such source or nucleus; the nearest names are said.
        BadLinkCursor: the page is to begin behind something that is no place in the list.
    """
    wanted = filters or LinkFilters()
    return page_of_links(every_link(asking, wanted), wanted.after, wanted.limit)


def every_link(asking: Asking, filters: LinkFilters) -> Links:
    """As ``links``, with all pages in one."""
    wanted, snapshot = filters, last_snapshot(asking)
    if snapshot is None:
        return Links(now=asking.now, snapshot=None, taken_at=None, cap_key=LINK_CAP, total=0, links=())
    sites, names = [str(one) for one in snapshot.links.sites], [str(one) for one in snapshot.nuclei.name]
    source = None if wanted.source is None else known_name("site", wanted.source, sites, "network_matrix_kv")
    nucleus = None if wanted.nucleus is None else known_name("nucleus", wanted.nucleus, names, "site")
    found = [
        line for line in link_lines(snapshot, tuning_in_force(asking), source, nucleus) if line.full or not wanted.full
    ]
    found.sort(key=_place)
    return Links(
        now=asking.now,
        snapshot=snapshot.id,
        taken_at=snapshot.taken_at,
        cap_key=LINK_CAP,
        total=len(found),
        links=tuple(found),
    )


def page_of_links(every: Links, after: str | None, limit: int) -> Links:
    """A page of links: at most ``limit`` of those behind a place of the list, as ``next_after`` of a page says it.

    A snapshot that is taken between two pages moves links. The place is kept with its number of files, so that what
    did not move is neither skipped nor shown again. Pure.

    Raises:
        BadLinkCursor: ``after`` is no place of a list of links.
    """
    begin = 0 if after is None else bisect_right(every.links, _read_place(after), key=_place)
    shown = every.links[begin : begin + limit]
    more = begin + len(shown) < len(every.links)
    following = json.dumps(_place(shown[-1]), separators=(",", ":")) if shown and more else None
    return every.model_copy(update={"links": shown, "next_after": following})


def _place(line: LinkLine) -> _Place:
    return -(line.queued_files or 0.0), line.source, line.nucleus


def _read_place(text: str) -> _Place:
    try:
        match json.loads(text):
            case [int() | float() as files, str() as source, str() as nucleus] if math.isfinite(files):
                return float(files), source, nucleus
            case _:
                pass
    except (ValueError, OverflowError, RecursionError):
        pass
    raise BadLinkCursor("`after` is no place in the list of links", "after", "begin without one, go on with next_after")
