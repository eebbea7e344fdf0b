"""Links from storages to nuclei, with the files that queue on them against the cap."""

from __future__ import annotations

from broker.app.answers.asking import Asking, known_name
from broker.app.answers.grid import LINK_CAP, last_snapshot, link_lines, tuning_in_force
from broker.app.answers.grid_models import LinkFilters, LinkLine, Links


def links(asking: Asking, filters: LinkFilters | None = None) -> Links:
    """The links for which all filters hold, those with most files first.

    Raises:
        NothingFound: there is no such source or nucleus; the nearest names are said.
    """
    wanted, snapshot = filters or LinkFilters(), last_snapshot(asking)
    if snapshot is None:
        return Links(now=asking.now, snapshot=None, taken_at=None, cap_key=LINK_CAP, total=0, links=())
    sites, names = [str(one) for one in snapshot.links.sites], [str(one) for one in snapshot.nuclei.name]
    source = None if wanted.source is None else known_name("site", wanted.source, sites, "network_matrix_kv")
    nucleus = None if wanted.nucleus is None else known_name("nucleus", wanted.nucleus, names, "site")
    found = [
        line for line in link_lines(snapshot, tuning_in_force(asking), source, nucleus) if line.full or not wanted.full
    ]
    found.sort(key=_order)
    return Links(
        now=asking.now,
        snapshot=snapshot.id,
        taken_at=snapshot.taken_at,
        cap_key=LINK_CAP,
        total=len(found),
        links=tuple(found[: wanted.limit]),
    )


def _order(line: LinkLine) -> tuple[float, str, str]:
    return -(line.queued_files or 0.0), line.source, line.nucleus
