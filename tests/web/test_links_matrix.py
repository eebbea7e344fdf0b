"""The matrix of links: every busy link on a small grid, and a page that stays small on a large one."""

from __future__ import annotations

import pytest

from broker.grid.answers.models import LinkLine, Links
from broker.grid.pages.grid import MOST_CELLS, matrix


def line(source: int, nucleus: int, queued: float | None) -> LinkLine:
    return LinkLine(
        source=f"SITE_{source:03}",
        nucleus=f"NUCLEUS_{nucleus:03}",
        queued_files=queued,
        cap_files=10_000.0,
        full=False,
        closeness=None,
        mbps_1h=None,
        mbps_1d=None,
        mbps_1w=None,
    )


def found(lines: list[LinkLine]) -> Links:
    return Links.model_construct(links=tuple(lines))


def test_every_busy_link_of_a_small_grid_is_drawn() -> None:
    drawn = str(matrix(found([line(1, 1, 9.0), line(2, 2, 5.0), line(3, 1, None), line(4, 3, 0.0)])))
    assert "SITE_001 to NUCLEUS_001: 9 files queue" in drawn
    assert "SITE_002 to NUCLEUS_002: 5 files queue" in drawn
    assert "SITE_003" not in drawn
    assert "from 2 of 2 sites to 2 nuclei" in drawn


@pytest.mark.parametrize(("sources", "nuclei"), [(200, 45), (200, 12), (5, 900), (900, 1)])
def test_a_large_grid_stays_a_small_page(sources: int, nuclei: int) -> None:
    """The fullest come first, as they are listed."""
    lines = [line(source, nucleus, 1e6 - source) for source in range(sources) for nucleus in range(nuclei)]
    drawn = str(matrix(found(lines)))
    assert len(drawn) < 120_000
    assert 0 < drawn.count("files queue, cap") <= MOST_CELLS
    assert "SITE_000 to NUCLEUS_000" in drawn


def test_without_busy_links_there_is_an_empty_matrix() -> None:
    assert "files queue, cap" not in str(matrix(found([line(1, 1, None)])))
