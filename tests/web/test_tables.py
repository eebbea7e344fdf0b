"""Tables of pages: column classes, folded rows, escaped headings; states and meters."""

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


def test_a_column_of_figures_and_a_column_hidden_on_phones() -> None:
    html = table('<tr class="bad"><th>a</th><td class="wide">2</td><td>3</td></tr>', "A <b>", ["X", "<Y>|h", "Z|nh"])
    assert "<caption>A &lt;b&gt;</caption>" in html and '<th scope="col">X</th>' in html
    assert '<th scope="col" class="h">&lt;Y&gt;</th><th scope="col" class="n h">Z</th>' in html
    assert '<tr class="bad"><th>a</th><td class="h wide">2</td><td class="n h">3</td></tr>' in html


@pytest.mark.parametrize(("number", "folded"), [(1, 0), (10, 0), (15, 0), (16, 6), (100, 90)])
def test_more_than_a_few_extra_rows_are_folded(number: int, folded: int) -> None:
    html = table(rows(number), "", ["X", "Y"], most=10)
    assert html.count("<tr") == number + 1 and html.count("data-more") == folded
    assert (f"show all {number} rows" in html) == bool(folded)


def test_a_table_without_rows_is_a_sentence() -> None:
    assert table("", "Rules <b>", ["X"]) == '<p class="empty">Rules &lt;b&gt;: none.</p>'


def test_a_row_across_all_columns_is_left_unchanged() -> None:
    html = table('<tr><td colspan="2">Nothing.</td></tr>', "", ["X", "Y|n"])
    assert '<td colspan="2">Nothing.</td>' in html


def test_a_state_is_text_with_a_matching_colour() -> None:
    assert state("running") == '<span class="pill run">running</span>'
    assert state("not_known_<b>") == '<span class="pill plain">not known &lt;b&gt;</span>' and "–" in state(None)  # noqa: RUF001


@pytest.mark.parametrize(
    ("value", "width"), [(0, "0%"), (1, "1.00%"), (50, "50.00%"), (100, "100.00%"), (0.001, "0.67%")]
)
def test_a_meter_is_proportional_and_always_visible(value: float, width: str) -> None:
    assert f'width="{width}"' in meter(value, 100.0, "bar-good")


def test_the_target_is_marked() -> None:
    html = bars("Shares", [Bar("<a>", 40.0, "40 %", "/x", 80.0, "bar-wait")])
    assert 'x1="80.00%"' in html and 'width="40.00%"' in html and '<a href="/x" class="l">&lt;a&gt;</a>' in html


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
def test_the_menu_marks_the_current_page(path: str, group: str | None, page: str | None) -> None:
    menu = menu_at(path)
    assert [entry["name"] for entry in menu] == [name for name, _ in MENU] and len(menu) == 5
    assert [entry["name"] for entry in menu if entry["here"]] == ([] if group is None else [group])
    current = [name for entry in menu for _, name, is_here in entry["pages"] if is_here]
    assert current == ([] if page is None else [page])


def test_an_empty_list_says_how_to_fill_it(stranger: httpx.Client) -> None:
    page = stranger.get("/sources").text
    assert '<p class="empty">None</p>' not in page and 'class="empty"' in page


def test_readable_durations_sizes_and_instants() -> None:
    assert [duration(value) for value in (None, 0.0, 0.34, 30)] == ["–", "0 s", "340 ms", "30 s"]  # noqa: RUF001
    sizes = (None, 153, 911_360, 1_740_800, 26_624_000, -2_000)
    assert [gigabytes(value) for value in sizes] == ["–", "153 GB", "911 TB", "1.7 PB", "26.6 PB", "-2.0 TB"]  # noqa: RUF001
    assert "<span>2026-08-01</span> <span>12:00 UTC</span>" in moment("2026-08-01T12:00:00Z")
    assert "<span>30 s</span>" in waited("2026-08-01T12:00:00Z", "2026-08-01T12:00:30Z")
    assert "ago" not in waited("2026-08-01T12:00:00Z", "2026-08-01T14:00:00Z")
