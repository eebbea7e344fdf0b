from __future__ import annotations

import pytest

from broker.work.tasks import malformed_values, split_rules_of
from tests.work.files_for_tests import task_table


def test_equal_split_rules_are_parsed_once() -> None:
    rules = split_rules_of(task_table([{"splitrule": "NF=5"}, {"splitrule": None}, {"splitrule": "NF=5"}]))
    assert len(rules.rules) == 2
    assert rules.values("NF").tolist() == [5, 0, 5]
    assert rules.present("NF").tolist() == [True, False, True]
    assert rules.of(2).value("NF") == 5


@pytest.mark.parametrize(
    ("row", "source", "code", "detail"),
    [
        ({"splitrule": "NF=5,oops,NE=x"}, "jedi_tasks.splitrule", "split_rule", "oops, NE=x"),
        ({"cputimeunit": "s"}, "jedi_tasks.cputimeunit", "unknown_unit", "'s'"),
        ({"ramunit": "GB"}, "jedi_tasks.ramunit", "unknown_unit", "'GB'"),
        ({"outdiskunit": "TB"}, "jedi_tasks.outdiskunit", "unknown_unit", "'TB'"),
        ({"workdiskunit": "mb"}, "jedi_tasks.workdiskunit", "unknown_unit", "'mb'"),
    ],
)
def test_malformed_values_are_reported(row: dict[str, str], source: str, code: str, detail: str) -> None:
    tasks = task_table([{"jeditaskid": 1}, {"jeditaskid": 7} | row])
    (entry,) = malformed_values(tasks, split_rules_of(tasks))
    assert (entry.source, entry.identifier, entry.code, entry.detail) == (source, "7", code, detail)


def test_known_units_and_rules_are_not_reported() -> None:
    tasks = task_table(
        [
            {"splitrule": "NF=5,US=2", "cputimeunit": "mHS06sPerEventFixed", "ramunit": "MBPerCore"},
            {"outdiskunit": "kBPerEvent", "workdiskunit": "GB", "ramunit": "MB", "cputimeunit": "HS06sPerEvent"},
            {},
        ]
    )
    assert malformed_values(tasks, split_rules_of(tasks)) == ()
