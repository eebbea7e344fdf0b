"""The page on monitoring names the sources of metrics, each panel of the dashboard, and each alert."""

from __future__ import annotations

import json

import pytest
import yaml

from broker import resources
from tests.docs.source_tree import ROOT

PAGE = (ROOT / "docs/how-to/monitoring.md").read_text(encoding="utf-8")
SHIPPED = resources.path("config/monitoring")
ALERTS = [
    rule["alert"]
    for group in yaml.safe_load((SHIPPED / "alerts.yaml").read_text(encoding="utf-8"))["groups"]
    for rule in group["rules"]
]
PANELS = [
    panel["title"] for panel in json.loads((SHIPPED / "grafana-dashboard.json").read_text(encoding="utf-8"))["panels"]
]


@pytest.mark.parametrize("word", ["/metrics", "Prometheus", "Grafana", "grafana-dashboard.json", "alerts.yaml"])
def test_the_page_names_the_sources_of_metrics(word: str) -> None:
    assert word in PAGE


def test_every_alert_has_a_row_and_every_row_an_alert() -> None:
    rows = [line.split("`")[1] for line in PAGE.splitlines() if line.startswith("| `Broker")]
    assert rows == ALERTS


def test_every_panel_is_named() -> None:
    assert PANELS and [title for title in PANELS if title not in PAGE] == []
