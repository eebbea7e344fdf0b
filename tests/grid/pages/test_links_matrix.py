"""The matrix of links: every busy link on a small grid, and a small page on a large grid."""

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


def links_of(lines: list[LinkLine]) -> Links:
    return Links.model_construct(links=tuple(lines))


def test_every_busy_link_of_a_small_grid_is_drawn() -> None:
    picture = str(matrix(links_of([line(1, 1, 9.0), line(2, 2, 5.0), line(3, 1, None), line(4, 3, 0.0)])))
    assert "SITE_001 to NUCLEUS_001: 9 files queue" in picture
    assert "SITE_002 to NUCLEUS_002: 5 files queue" in picture
    assert "SITE_003" not in picture
    assert "from 2 of 2 sites to 2 nuclei" in picture


@pytest.mark.parametrize(("sources", "nuclei"), [(200, 45), (200, 12), (5, 900), (900, 1)])
def test_the_page_of_a_large_grid_stays_small(sources: int, nuclei: int) -> None:
    """The fullest links come first, as in the list."""
    lines = [line(source, nucleus, 1e6 - source) for source in range(sources) for nucleus in range(nuclei)]
    picture = str(matrix(links_of(lines)))
    assert len(picture) < 120_000
    assert 0 < picture.count("files queue, cap") <= MOST_CELLS
    assert "SITE_000 to NUCLEUS_000" in picture


def test_without_busy_links_the_matrix_is_empty() -> None:
    assert "files queue, cap" not in str(matrix(links_of([line(1, 1, None)])))
