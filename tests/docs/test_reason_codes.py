from __future__ import annotations

from broker.cli.reference import reason_codes
from broker.decisions.answers.known_reasons import known_reasons


def test_every_code_has_one_anchor_with_fault_cure_and_who_can_act() -> None:
    page = reason_codes()
    parts = page.split("\n(")[1:]
    anchors = [part.split(")=", 1)[0] for part in parts]
    assert len(anchors) == len(set(anchors)) and set(anchors) == set(known_reasons())
    for anchor, part in zip(anchors, parts, strict=True):
        reason = known_reasons()[anchor][0].reason
        assert f"**{reason.wrong}.**" in part and reason.cure in part and "Who can act: " in part, anchor
