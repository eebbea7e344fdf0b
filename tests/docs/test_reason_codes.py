from __future__ import annotations

import yaml

from broker.app.answers.reason_codes import CHUNK_REASONS, STEP_CODES, THROTTLES
from broker.app.answers.user import CURES as WHO
from broker.cli.reason_reference import CURES, rule_meanings
from broker.cli.reference import reason_codes

BROKERAGES = ("production_task", "production_job", "analysis_job")


def test_every_code_has_its_cure_and_no_other_is_told() -> None:
    codes = {*rule_meanings(BROKERAGES), *STEP_CODES, *CHUNK_REASONS, *THROTTLES}
    cures = yaml.safe_load(CURES.read_text(encoding="utf-8"))
    assert set(cures) == codes
    assert all(text.endswith(".") for text in cures.values())
    assert set(WHO) <= codes


def test_every_code_has_one_anchor() -> None:
    lines = reason_codes().splitlines()
    anchors = [line for line in lines if line.startswith("(") and line.endswith(")=")]
    assert len(anchors) == len(set(anchors)) > 80
    assert sum(line.startswith("**Who can cure it:** ") for line in lines) == len(anchors)
