from __future__ import annotations

from hypothesis import given, settings, strategies as st

from broker.cli.output import ColumnText, lay_out, records, wrapped
from broker.cli.rendering.cells import columns_of

QUEUES = ColumnText("queue", ("CERN-PROD/SCORE_HIMEM", "BNL/MCORE"))
RULE = ColumnText("rule", ("lowmemory", "data_availability"), drop_order=2)
UNIT = ColumnText("unit", ("MB", "bytes"), drop_order=1)
JOBS = ColumnText("jobs waiting", ("5", "12345"), right=True)
WHY = ColumnText("why", ("the task requires 289 GB for 8 cores", "no complete replica"), breaks=True)

names = st.text("abcABC/_-", min_size=1, max_size=30)
sentences = st.lists(names, min_size=1, max_size=6).map(" ".join)


def test_figures_are_right_aligned_and_no_line_ends_in_blanks() -> None:
    assert lay_out((QUEUES, JOBS), None).lines == (
        "queue                  jobs waiting",
        "---------------------  ------------",
        "CERN-PROD/SCORE_HIMEM             5",
        "BNL/MCORE                     12345",
    )


def test_headings_break_before_columns_are_given_up() -> None:
    layout = lay_out((QUEUES, JOBS), 30)
    assert layout.missing == ()
    assert layout.lines[:3] == (
        "queue                     jobs",
        "                       waiting",
        "---------------------  -------",
    )


def test_columns_with_the_largest_drop_order_go_first() -> None:
    columns = (QUEUES, RULE, UNIT, JOBS)
    whole = 21 + 17 + 5 + 7 + 3 * 2
    assert lay_out(columns, whole).missing == ()
    assert lay_out(columns, whole - 1).missing == ("rule",)
    assert lay_out(columns, 30).missing == ("rule", "unit")


def test_without_room_for_required_columns_each_row_is_a_record() -> None:
    assert lay_out((QUEUES, RULE, JOBS), 20).lines == (
        "queue         CERN-PROD/SCORE_HIMEM",
        "rule          lowmemory",
        "jobs waiting  5",
        "",
        "queue         BNL/MCORE",
        "rule          data_availability",
        "jobs waiting  12345",
    )


def test_sentences_wrap_and_names_do_not() -> None:
    assert lay_out((QUEUES, WHY), 48).lines[2:] == (
        "CERN-PROD/SCORE_HIMEM  the task requires 289 GB",
        "                       for 8 cores",
        "BNL/MCORE              no complete replica",
    )


def test_wide_characters_take_two_columns() -> None:
    assert columns_of("日本") == 4
    assert lay_out((ColumnText("a", ("日本", "x")), ColumnText("b", ("1", "2"))), None).lines[2:] == (
        "日本  1",
        "x     2",
    )


@settings(max_examples=60)
@given(st.lists(st.tuples(names, sentences, names, sentences), min_size=1, max_size=5), st.integers(20, 100))
def test_no_word_is_broken_and_a_table_fits(rows: list[tuple[str, str, str, str]], width: int) -> None:
    first, about, rule, more = (tuple(cells) for cells in zip(*rows, strict=True))
    columns = [
        ColumnText("name", first),
        ColumnText("about", about, breaks=True),
        ColumnText("rule", rule, drop_order=1),
        ColumnText("more", more, breaks=True, drop_order=2),
    ]
    layout = lay_out(columns, width)
    text = "\n".join(layout.lines)
    words = text.split()
    for column in columns:
        if column.heading not in layout.missing and column.heading in words:
            for cell in column.cells:
                assert set(cell.split(" ")) <= set(words)
    if layout.lines[1].startswith("-"):
        assert all(len(line) <= width for line in layout.lines)
    assert all(line == line.rstrip() for line in layout.lines)


@given(sentences, st.integers(1, 40))
def test_a_wrapped_sentence_keeps_its_words(text: str, width: int) -> None:
    lines = wrapped(text, width)
    assert " ".join(lines) == text
    assert all(len(line) <= width or " " not in line for line in lines)


def test_records_leave_out_empty_cells() -> None:
    assert records((ColumnText("a", ("1", "")), ColumnText("b", ("", "2"))), None) == ["a  1", "", "b  2"]
