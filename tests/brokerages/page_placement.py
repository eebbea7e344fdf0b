"""The placement of the page on flow, and others, offered as an installed distribution would offer them."""

from __future__ import annotations

import re
import sys
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest
import yaml

from broker.brokerages import offered_steps
from broker.brokerages.base import Rules
from broker.brokerages.profile import read_profile, rules_of
from tests.docs.source_tree import ROOT

PAGE = (ROOT / "docs" / "explanation" / "flow.md").read_text(encoding="utf-8")
((EXAMPLE, ENTRY_POINT),) = re.findall(
    r"^`lot_placement\.py`:\n\n```python\n(.*?)^```$.*?\nlot = \"(\S+)\"\n", PAGE, re.MULTILINE | re.DOTALL
)
FLOW = EntryPoint("flow", "broker.flow.model.placement:FlowPlacement", offered_steps.GROUP)


def offer(monkeypatch: pytest.MonkeyPatch, *points: EntryPoint) -> None:
    monkeypatch.setattr(offered_steps, "entry_points", lambda group: points)


def lot(value: str) -> EntryPoint:
    return EntryPoint("lot", value, offered_steps.GROUP)


def rules_with(**given: Any) -> Rules:
    entry = {"brokerage": "production_job", "steps": {"placement": given}}
    return rules_of(read_profile(yaml.safe_dump({"profile": "own", "brokerages": [entry]})), "production_job")


def offer_page_placement(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Write the module of the page into a folder, and offer its placement besides ``flow``."""
    (folder / "lot_placement.py").write_text(EXAMPLE, encoding="utf-8")
    monkeypatch.syspath_prepend(folder)
    monkeypatch.delitem(sys.modules, "lot_placement", raising=False)
    offer(monkeypatch, FLOW, lot(ENTRY_POINT))
