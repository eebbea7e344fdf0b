"""Both sides on fresh grids."""

from __future__ import annotations

import atexit
import logging
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from panda.installation import prepare

from upstream.differences import Difference

KINDS = ("production_job", "production_task", "analysis_job", "generic_job")
#: Makes the content of a scenario file from a seed for a brokerage.
MakeGrid = Callable[[int, str], dict[str, Any]]


@dataclass
class Counted:
    """What was compared.

    Attributes:
        grids: number of grids.
        results: decisions of PanDA's.
        brokered: those of them with candidates.
        differences: those that ours does not equal.
    """

    grids: int = 0
    results: int = 0
    brokered: int = 0
    differences: list[Difference] = field(default_factory=list)

    def __add__(self, other: Counted) -> Counted:
        return Counted(
            self.grids + other.grids,
            self.results + other.results,
            self.brokered + other.brokered,
            self.differences + other.differences,
        )

    @property
    def equal(self) -> int:
        """Decisions that both sides take alike."""
        return self.results - len(self.differences)

    @property
    def agreement(self) -> float:
        """Equal decisions among all; 1 where nothing was decided."""
        return self.equal / self.results if self.results else 1.0


def compare(profile: str, seeds: Iterable[int], kinds: Sequence[str] = ()) -> list[Difference]:
    """What a profile decides otherwise than PanDA on fresh grids.

    Args:
        profile: of ours.
        seeds: one grid each for every brokerage.
        kinds: the brokerages; none: all that the profile has.
    """
    return [one for kind in kinds or kinds_of(profile) for one in count(profile, seeds, kind).differences]


def count(
    profile: str,
    seeds: Iterable[int],
    kind: str,
    *,
    grid: MakeGrid | None = None,
    told: Callable[[int, Counted], None] = lambda seed, so_far: None,
) -> Counted:
    """Compare one brokerage.

    Args:
        profile: of ours.
        seeds: one grid each.
        kind: the brokerage.
        grid: makes the grids; otherwise the synthetic ones with all that is odd and rare.
        told: called after each grid.
    """
    result = Counted()
    with _sites() as open_one:
        from upstream.one_grid import compare_site

        make = _rich if grid is None else grid
        for seed in seeds:
            with open_one(make(seed, kind)) as site:
                result += compare_site(site, kind, profile, seed)
            told(seed, result)
    return result


def _rich(seed: int, kind: str) -> dict[str, Any]:
    from grids import generator, generic

    if kind == "generic_job":
        return generic.scenario(seed, rich=True)
    return generator.scenario(seed, kind, rich=True)  # type: ignore[arg-type]


def kinds_of(profile: str) -> tuple[str, ...]:
    """The brokerages of a profile that PanDA has, too."""
    from agents.service.configuration import load_profile

    return tuple(one.brokerage for one in load_profile(profile).brokerages if one.brokerage in KINDS)


@cache
def _home_of_panda() -> Path:
    """The folder of PanDA's configuration, one for the process: its modules read where things lie when imported."""
    home = Path(tempfile.mkdtemp(prefix="gridbroker-upstream-"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    prepare(home)
    logging.getLogger("panda").addHandler(logging.NullHandler())
    return home


@contextmanager
def _sites() -> Iterator[Callable[[dict[str, Any]], Any]]:
    """A PostgreSQL of its own with PanDA installed over it; gives what opens a site on a scenario."""
    home = _home_of_panda()
    from panda import loading
    from panda.site import open_site

    from broker.store.connection.database import Database
    from broker.store.connection.embedded import SUPERUSER, EmbeddedServer

    data = Path(tempfile.mkdtemp(prefix="gridbroker-upstream-"))
    data.chmod(0o755)
    server = EmbeddedServer(data / "database", {"fsync": "off", "full_page_writes": "off"})
    server.start()
    try:
        with Database(server.url(SUPERUSER), pool_size=1) as admin, admin.autocommit() as connection:
            connection.exec_driver_sql("CREATE DATABASE template_of_grids")
            loading.make_tables(server.url("template_of_grids"))

            @contextmanager
            def open_one(content: dict[str, Any]) -> Iterator[Any]:
                make = "CREATE DATABASE one_grid TEMPLATE template_of_grids STRATEGY FILE_COPY"
                connection.exec_driver_sql("DROP DATABASE IF EXISTS one_grid WITH (FORCE)")
                connection.exec_driver_sql(make)
                site = open_site(server.url("one_grid"), content, home)
                try:
                    yield site
                finally:
                    site.connection.close()

            yield open_one
    finally:
        server.stop()
        shutil.rmtree(data, ignore_errors=True)
