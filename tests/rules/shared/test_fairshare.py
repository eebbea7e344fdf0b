"""The grammar of fairsharepolicy: a table of known verdicts, its rules one by one, and hostile policies."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from broker.domain.arrays import texts
from broker.rules.shared.fairshare import (
    ShareColumns,
    Verdict,
    deciding_part,
    parse,
    process_group,
    texts_of_groups,
    unreadable_parts,
    verdicts,
)

SIMUL_ONLY = "type=evgen:100%,type=simul:100%,type=any:0%"
URGENT_CLOSED = "priority>500:0,type=simul:100%,type=any:0%"
URGENT_LAST = "type=evgen:100%,type=simul:100%,type=any:0%,priority>500:0%"
URGENT = "gshare=Express*:100%,gshare=any:0%"
NO_HIGGS = "group=(AP_Higgs|AP_Susy|Higgs):0%"
REJECT, ACCEPT, UNKNOWN = Verdict.REJECT, Verdict.ACCEPT, Verdict.UNKNOWN


def columns(*tasks: dict[str, Any]) -> ShareColumns:
    """Make the columns of tasks, by default simulation with priority 500."""
    rows: list[dict[str, Any]] = [
        {"type": "simul", "group": None, "gshare": "MC 16", "priority": 500, "merging": False, **task} for task in tasks
    ]
    priorities = [np.nan if row["priority"] is None else float(row["priority"]) for row in rows]
    return ShareColumns(
        texts_of_groups([row["type"] for row in rows]),
        texts(row["group"] for row in rows),
        texts(row["gshare"] for row in rows),
        np.array(priorities),
        np.array([row["merging"] for row in rows]),
    )


def verdict(policy: str | None, **task: Any) -> Verdict:
    return Verdict(int(verdicts(policy, columns(task))[0]))


@pytest.mark.parametrize(
    ("policy", "task", "expected"),
    [
        (SIMUL_ONLY, {"type": "evgen"}, ACCEPT),
        (SIMUL_ONLY, {"type": "simul"}, ACCEPT),
        (SIMUL_ONLY, {"type": "pile"}, REJECT),
        (SIMUL_ONLY, {"type": "something"}, REJECT),
        (SIMUL_ONLY, {"type": None}, REJECT),
        (SIMUL_ONLY, {"type": "validation"}, ACCEPT),
        (SIMUL_ONLY, {"type": "rc_alrb"}, ACCEPT),
        (URGENT_CLOSED, {"priority": 501}, REJECT),
        (URGENT_CLOSED, {"priority": 500}, ACCEPT),
        (URGENT_CLOSED, {"type": "pile"}, REJECT),
        (URGENT_CLOSED, {"priority": 100, "merging": True}, ACCEPT),
        (URGENT_CLOSED, {"priority": 501, "merging": True}, ACCEPT),
        ("type=evgen:100%,type=simul:100%", {"type": "pile"}, ACCEPT),
        (URGENT_LAST, {"priority": 900}, ACCEPT),
        (URGENT_LAST, {"type": "pile", "priority": 100}, REJECT),
        (URGENT, {"gshare": "Express Analysis"}, ACCEPT),
        (URGENT, {"gshare": "MC 16"}, REJECT),
        (URGENT, {"gshare": "Not Express"}, REJECT),
        (NO_HIGGS, {"group": "Higgs"}, REJECT),
        (NO_HIGGS, {"group": "AP_Susy"}, REJECT),
        (NO_HIGGS, {"group": "Top"}, ACCEPT),
        (NO_HIGGS, {"group": "HiggsX"}, ACCEPT),
        (NO_HIGGS, {"group": None}, ACCEPT),
        ("type=simul:priority>300:0%", {"priority": 301}, REJECT),
        ("type=simul:priority>300:0%", {"priority": 300}, ACCEPT),
        ("type=simul:priority>300:0%", {"type": "pile", "priority": 301}, ACCEPT),
        ("type=others:0", {"type": "something"}, REJECT),
        ("type=others:0", {"type": "simul"}, ACCEPT),
        ("type=simul:0.0%", {}, ACCEPT),
        ("type=simul:0", {}, REJECT),
        ("type=simul:00", {}, ACCEPT),
        (None, {}, ACCEPT),
        ("", {}, ACCEPT),
        (" type=evgen:0", {"type": "pile"}, REJECT),
        ("colour=red:0", {}, REJECT),
        ("0", {}, REJECT),
        ("100%", {}, ACCEPT),
        ("group=*:0", {"group": None}, REJECT),
        ("group=any:0", {"group": None}, REJECT),
        ("gshare=Nothing:0", {"gshare": None}, REJECT),
        ("gshare=Nothing:0", {}, ACCEPT),
        (",type=any:0", {}, ACCEPT),
    ],
)
def test_known_answers(policy: str | None, task: dict[str, Any], expected: Verdict) -> None:
    assert verdict(policy, **task) is expected


@pytest.mark.parametrize(
    ("operator", "below", "equal", "above"),
    [
        (">", ACCEPT, ACCEPT, REJECT),
        ("<", REJECT, ACCEPT, ACCEPT),
        (">=", ACCEPT, REJECT, REJECT),
        ("<=", REJECT, REJECT, ACCEPT),
        ("==", ACCEPT, REJECT, ACCEPT),
        ("!=", REJECT, ACCEPT, REJECT),
    ],
)
def test_operators(operator: str, below: Verdict, equal: Verdict, above: Verdict) -> None:
    policy = f"priority{operator}300:0"
    assert [verdict(policy, priority=value) for value in (299, 300, 301)] == [below, equal, above]
    assert verdict(policy, priority=None) is ACCEPT


@pytest.mark.parametrize(
    "field", ["priority", "priority>", "priority=5", "priority>x", "priority>5 or True", "priority>>5"]
)
def test_a_malformed_priority_holds_for_all_but_merging(field: str) -> None:
    assert verdict(f"{field}:0", priority=1) is REJECT
    assert verdict(f"{field}:0", priority=1, merging=True) is ACCEPT


def test_code_in_a_policy_is_plain_text() -> None:
    assert verdict("priority>__import__('os').abort():0,type=any:100%", priority=1) is REJECT
    assert verdict("priority>0 and 1/0:0") is REJECT


@pytest.mark.parametrize("pattern", ["(", "[a-", "a{9999999}", "(?=x)", "(?P<n", "\\", "x)"])
def test_an_unreadable_pattern_is_unknown_only_where_it_is_reached(pattern: str) -> None:
    policy = f"type=evgen:0,group={pattern}:0,type=any:100%"
    assert unreadable_parts(policy) == (f"group={pattern}:0",)
    assert verdict(policy, type="evgen") is REJECT
    assert verdict(policy) is UNKNOWN


def test_the_other_conditions_of_an_unreadable_part_still_count() -> None:
    assert verdict("group=(:type=evgen:0,type=any:0") is REJECT
    assert verdict("group=(:priority>900:0,type=any:0") is REJECT
    assert verdict("group=(:priority>100:0,type=any:0") is UNKNOWN


def test_tasks_are_judged_one_by_one() -> None:
    rows: list[dict[str, Any]] = [
        {"type": kind, "priority": priority} for kind in ("simul", "pile", "test") for priority in (100, 501)
    ]
    codes = verdicts(URGENT_CLOSED, columns(*rows))
    assert [Verdict(int(code)) for code in codes] == [verdict(URGENT_CLOSED, **row) for row in rows]


@pytest.mark.parametrize(
    ("kind", "group"),
    [
        ("simul", "simul"),
        ("merge", "merge"),
        ("prod_test", "test"),
        ("rc_test2", "test"),
        ("x", "others"),
        (None, "others"),
    ],
)
def test_process_groups(kind: str | None, group: str) -> None:
    assert process_group(kind) == group


def test_the_deciding_part_is_named() -> None:
    assert deciding_part(SIMUL_ONLY, columns({"type": "pile"})) == "type=any:0%"
    assert deciding_part(URGENT_CLOSED, columns({"priority": 501})) == "priority>500:0"
    assert deciding_part(URGENT_CLOSED, columns({"priority": 501, "merging": True})) == "type=simul:100%"
    assert deciding_part("type=evgen:0", columns({})) is None
    assert deciding_part(SIMUL_ONLY, columns({"type": "validation"})) is None
    assert deciding_part(None, columns({})) is None


HOSTILE = [
    "(" * 50_000 + ":0",
    "type=" + "(a*)*" * 20_000 + "b:0",
    "type=(" + "|".join(["simul"] * 16_000) + "):0",
    "group=" + "*" * 100_000 + ":0",
    ",".join(["type=evgen:0"] * 8_000),
    ":" * 100_000,
    "priority>" + "9" * 100_000 + ":0",
    "group=\ud800:0,gshare=\udfff*:0",
    "group=\x00*:0,\n\r\t:0%",
]


@pytest.mark.parametrize("policy", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_policies_get_a_verdict(policy: str) -> None:
    tasks: list[dict[str, Any]] = [
        {"group": "a" * 10_000, "gshare": "\udfff" * 100},
        {"priority": 901},
        {"merging": True, "group": None},
    ]
    assert set(verdicts(policy, columns(*tasks))) <= {one.value for one in Verdict}


FIELD = st.one_of(
    st.sampled_from(["type=any", "type=simul", "group=", "gshare=*", "priority>500", "priority!=1", "priority", "x"]),
    st.builds(
        lambda name, pattern: f"{name}={pattern}",
        st.sampled_from(["type", "group", "gshare"]),
        st.text("ab*.(|)[]{}^$\\+?0é\ud800", max_size=12),
    ),
)
POLICY = st.lists(
    st.builds(
        lambda fields, value: ":".join([*fields, value]),
        st.lists(FIELD, max_size=3),
        st.sampled_from(["0", "0%", "100%", ""]),
    ),
    max_size=5,
).map(",".join)
TASK = st.fixed_dictionaries(
    {
        "type": st.sampled_from([None, "simul", "pile", "validation", "x"]),
        "group": st.sampled_from([None, "", "a", "ab", "\ud800"]),
        "gshare": st.sampled_from([None, "b", "MC 16"]),
        "priority": st.sampled_from([None, 1, 500, 501]),
        "merging": st.booleans(),
    }
)


@settings(max_examples=150, deadline=None)
@given(policy=st.one_of(POLICY, st.text(max_size=200)), tasks=st.lists(TASK, min_size=1, max_size=4))
def test_any_text_is_a_policy(policy: str, tasks: list[dict[str, Any]]) -> None:
    codes = verdicts(policy, columns(*tasks))
    for task, code in zip(tasks, codes, strict=True):
        assert verdict(policy, **task).value == code
        part = deciding_part(policy, columns(task))
        if part is None:
            assert code == ACCEPT.value
        if code == UNKNOWN.value:
            assert unreadable_parts(policy)


@settings(max_examples=60, deadline=None)
@given(first=POLICY, second=POLICY, task=TASK)
def test_parts_after_the_deciding_one_change_nothing(first: str, second: str, task: dict[str, Any]) -> None:
    if first and deciding_part(first, columns(task)) is not None:
        assert verdict(f"{first},{second}", **task) is verdict(first, **task)


def test_a_policy_is_parsed_once() -> None:
    assert parse(SIMUL_ONLY) is parse("".join(list(SIMUL_ONLY)))
