"""The table of every page: classes of its columns, folded rows, escaped headings; states and meters."""

from __future__ import annotations

import httpx
import pytest
from markupsafe import Markup

from broker.web.formats import duration, gigabytes, moment, state, waited
from broker.web.pictures.bars import Bar, bars, meter
from broker.web.rendering import MENU, menu_at
from broker.web.tables import table

ROW = Markup("<tr><th>{}</th><td>1</td></tr>")


def rows(number: int) -> Markup:
    return Markup("").join(ROW.format(at) for at in range(number))


def test_a_column_of_figures_and_one_that_a_phone_leaves_away() -> None:
    made = table('<tr class="bad"><th>a</th><td class="wide">2</td><td>3</td></tr>', "A <b>", ["X", "<Y>|h", "Z|nh"])
    assert "<caption>A &lt;b&gt;</caption>" in made and '<th scope="col">X</th>' in made
    assert '<th scope="col" class="h">&lt;Y&gt;</th><th scope="col" class="n h">Z</th>' in made
    assert '<tr class="bad"><th>a</th><td class="h wide">2</td><td class="n h">3</td></tr>' in made


@pytest.mark.parametrize(("number", "folded"), [(1, 0), (10, 0), (15, 0), (16, 6), (100, 90)])
def test_rows_beyond_some_are_folded_when_they_are_more_than_a_few(number: int, folded: int) -> None:
    made = table(rows(number), "", ["X", "Y"], most=10)
    assert made.count("<tr") == number + 1 and made.count("data-more") == folded
    assert (f"show all {number} rows" in made) == bool(folded)


def test_a_table_without_rows_is_a_sentence() -> None:
    assert table("", "Rules <b>", ["X"]) == '<p class="empty">Rules &lt;b&gt;: none.</p>'


def test_a_row_across_all_columns_is_left_as_it_is() -> None:
    made = table('<tr><td colspan="2">Nothing.</td></tr>', "", ["X", "Y|n"])
    assert '<td colspan="2">Nothing.</td>' in made


def test_a_state_has_a_colour_of_its_meaning_and_is_text() -> None:
    assert state("running") == '<span class="pill run">running</span>'
    assert state("not_known_<b>") == '<span class="pill plain">not known &lt;b&gt;</span>' and "–" in state(None)  # noqa: RUF001


@pytest.mark.parametrize(
    ("value", "width"), [(0, "0%"), (1, "1.00%"), (50, "50.00%"), (100, "100.00%"), (0.001, "0.67%")]
)
def test_a_meter_is_a_part_of_its_width_and_never_too_short_to_be_seen(value: float, width: str) -> None:
    assert f'width="{width}"' in meter(value, 100.0, "bar-good")


def test_a_mark_stands_at_the_target() -> None:
    made = bars("Shares", [Bar("<a>", 40.0, "40 %", "/x", 80.0, "bar-wait")])
    assert 'x1="80.00%"' in made and 'width="40.00%"' in made and '<a href="/x" class="l">&lt;a&gt;</a>' in made


@pytest.mark.parametrize(
    ("path", "group", "page"),
    [
        ("/", "Overview", "Now"),
        ("/tasks/7", "Work", "Tasks"),
        ("/queues/A/B", "Grid", "Queues"),
        ("/users/x", "Work", "Users"),
        ("/login", None, None),
    ],
)
def test_the_menu_says_where_one_is(path: str, group: str | None, page: str | None) -> None:
    menu = menu_at(path)
    assert [one["name"] for one in menu] == [name for name, _ in MENU] and len(menu) == 5
    assert [one["name"] for one in menu if one["here"]] == ([] if group is None else [group])
    here = [name for one in menu for _, name, is_here in one["pages"] if is_here]
    assert here == ([] if page is None else [page])


def test_a_list_of_nothing_says_what_would_bring_something(stranger: httpx.Client) -> None:
    page = stranger.get("/sources").text
    assert '<p class="empty">None</p>' not in page and 'class="empty"' in page


def test_lengths_sizes_and_instants_as_people_read_them() -> None:
    assert [duration(value) for value in (None, 0.0, 0.34, 30)] == ["–", "0 s", "340 ms", "30 s"]  # noqa: RUF001
    sizes = (None, 153, 911_360, 1_740_800, 26_624_000, -2_000)
    assert [gigabytes(value) for value in sizes] == ["–", "153 GB", "911 TB", "1.7 PB", "26.6 PB", "-2.0 TB"]  # noqa: RUF001
    assert "<span>2026-08-01</span> <span>12:00 UTC</span>" in moment("2026-08-01T12:00:00Z")
    assert "<span>30 s</span>" in waited("2026-08-01T12:00:00Z", "2026-08-01T12:00:30Z")
    assert "ago" not in waited("2026-08-01T12:00:00Z", "2026-08-01T14:00:00Z")
