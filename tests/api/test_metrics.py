"""Metrics: what is promised is there, counters only grow, labels are bounded; the files for Grafana and Prometheus."""

from __future__ import annotations

import importlib
import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import sqlalchemy as sa
import yaml
from prometheus_client.parser import text_string_to_metric_families

from broker.api.server import ApiServer
from broker.domain.rejection_counts import CANDIDATE, QueueCounts
from broker.feature import pages
from broker.resources import path
from broker.service.routes.metrics import BrokerMetrics, Growth, rejections_in, submitted_pilots
from broker.service.statements.metric_reads import standing
from broker.store.connection.database import Database
from tests.api import promql
from tests.api.decided import decided_database
from tests.api.serving import client_of, serving, shipped
from tests.conftest import TestServer

MONITORING = "config/monitoring"
DURATION = re.compile(r"\d+[smhd]")
KNOWN = ("$value", "$externalLabels.broker_page", "$externalLabels.broker_docs")
BUCKET = "'2026-08-01T12:00:00Z'"


@pytest.fixture(scope="module")
def decided(test_server: TestServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Database, ApiServer]]:
    configuration = shipped(metrics={"queues": ["ALPHA_MCORE"]})
    with (
        decided_database(test_server) as database,
        serving(database, tmp_path_factory.mktemp("home"), configuration) as server,
    ):
        yield database, server


def samples(client: httpx.Client) -> dict[str, dict[tuple[tuple[str, str], ...], float]]:
    answer = client.get("/metrics")
    assert answer.status_code == 200, answer.text
    found: dict[str, dict[tuple[tuple[str, str], ...], float]] = {}
    for family in text_string_to_metric_families(answer.text):
        for one in family.samples:
            found.setdefault(one.name, {})[tuple(sorted(one.labels.items()))] = one.value
    return found


def decide(database: Database, decisions: int) -> None:
    counts = QueueCounts(("A", "B"), ("low_memory", CANDIDATE), np.full((2, 2), decisions), np.ones((2, 2)), np.ones(2))
    with database.begin() as connection:
        connection.execute(
            sa.text(f"""
                INSERT INTO broker.reason_counts
                    (bucket_s, bucket_at, brokerage, outcome, reason, decisions, chunks, jobs)
                VALUES (300, {BUCKET}, 'made', 'pending', 'low_memory', :n, 1, :n)
                ON CONFLICT (bucket_s, bucket_at, brokerage, outcome, reason, main_reason) DO UPDATE
                SET decisions = :n, jobs = :n"""),
            {"n": decisions},
        )
        connection.execute(
            sa.text(f"""
                INSERT INTO broker.queue_counts VALUES (300, {BUCKET}, 'made', :counts)
                ON CONFLICT (bucket_s, bucket_at, brokerage) DO UPDATE SET counts = :counts"""),
            {"counts": counts.pack()},
        )
        connection.execute(
            sa.text("""
                INSERT INTO broker.agent_runs (agent, holder, started_at, finished_at, outcome, tuning, timings)
                VALUES ('made', 'host:1', now(), now(), 'done', 7, '{"load_s": 0.5, "total_s": 2}')""")
        )


def test_counters_grow_by_what_was_decided_since(decided: tuple[Database, ApiServer]) -> None:
    database, server = decided
    with client_of(server, {}) as client:
        decide(database, 3)
        forget = _fresh(server)
        forget()
        before = samples(client)
        decide(database, 10)
        forget()
        after = samples(client)
    made = ("brokerage", "made")

    def growth(name: str, *labels: tuple[str, str]) -> float:
        return after[name][labels] - before.get(name, {}).get(labels, 0)

    assert growth("broker_decisions_total", made, ("outcome", "pending"), ("reason", "low_memory")) == 7
    assert growth("broker_jobs_assigned_total", made) == 7
    assert growth("broker_rejections_total", made, ("rule", "low_memory")) == 14
    assert growth("broker_cycles_total", ("agent", "made"), ("outcome", "done")) == 1
    assert growth("broker_cycle_seconds_count", ("agent", "made"), ("stage", "load")) == 1
    assert after["broker_tuning_version"][(("process", "host:1"),)] == 7
    assert {dict(labels)["source"] for labels in after["broker_source_usable"]} >= {"queues", "jobs"}
    assert {dict(labels)["queue"] for labels in after["broker_queue_jobs"]} == {"ALPHA_MCORE"}
    assert "broker_leader" in after
    routes = {dict(labels)["route"] for labels in after["broker_http_request_seconds_count"]}
    assert routes <= {"/metrics", "other"}


def _fresh(server: ApiServer) -> Any:
    """Let the metrics be counted anew, although they are young."""
    metrics = server.app.state.api.kept["metrics"]

    def forget() -> None:
        metrics._shown = None

    return forget


def test_growth_begins_at_the_first_look_and_ignores_buckets_that_go() -> None:
    growth = Growth()
    assert growth.of({("a",): 5}) == {}
    assert growth.of({("a",): 7, ("b",): 2}) == {("a",): 2, ("b",): 2}
    assert growth.of({("b",): 2}) == {}


def test_candidates_are_no_rejections() -> None:
    counts = QueueCounts(("A", "B"), ("x", CANDIDATE), np.array([[1, 2], [9, 9]]), np.ones((2, 2)), np.ones(2))
    assert rejections_in(counts.pack()) == {"x": 3}


def dashboard() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path(f"{MONITORING}/grafana-dashboard.json").read_text(encoding="utf-8"))
    return found


def expressions() -> list[str]:
    rules = [rule for group in alerts()["groups"] for rule in group["rules"]]
    panels = dashboard()["panels"]
    return [rule["expr"] for rule in rules] + [one["expr"] for panel in panels for one in panel["targets"]]


def alerts() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(path(f"{MONITORING}/alerts.yaml").read_text(encoding="utf-8"))
    return found


def test_dashboard_and_alerts_ask_for_metrics_that_there_are(decided: tuple[Database, ApiServer]) -> None:
    with client_of(decided[1], {}) as client:
        text = client.get("/metrics").text
    known = set(re.findall(r"^# TYPE (\w+) ", text, re.MULTILINE))
    asked = {name for one in expressions() for name in re.findall(r"\bbroker_\w+", one)}
    assert {re.sub(r"_(bucket|count|sum)$", "", name) for name in asked} <= known


def test_alert_rules_are_whole(tmp_path: Path) -> None:
    found = alerts()
    assert set(found) == {"groups"}
    for group in found["groups"]:
        assert set(group) == {"name", "interval", "rules"} and DURATION.fullmatch(group["interval"])
        names = [rule["alert"] for rule in group["rules"]]
        assert len(set(names)) == len(names)
    for rule in (rule for group in found["groups"] for rule in group["rules"]):
        assert set(rule) == {"alert", "expr", "for", "labels", "annotations"}, rule["alert"]
        assert DURATION.fullmatch(rule["for"]) and re.fullmatch(r"[A-Za-z_]\w*", rule["alert"])
        assert rule["labels"]["severity"] in ("critical", "warning")
        assert set(rule["annotations"]) == {"summary", "description", "page_url", "runbook_url"}
        kept = {label for listed in re.findall(r"\bby \(([^)]*)\)", rule["expr"]) for label in listed.split(", ")}
        for text in rule["annotations"].values():
            used = [template.strip() for template in re.findall(r"{{(.*?)}}", text)]
            assert all(one in KNOWN or one.removeprefix("$labels.") in kept for one in used), (rule["alert"], used)
    promtool = shutil.which("promtool")
    if promtool is not None:
        subprocess.run([promtool, "check", "rules", str(path(f"{MONITORING}/alerts.yaml"))], check=True)


def test_every_alert_leads_to_a_page_and_to_what_to_do() -> None:
    for rule in (rule for group in alerts()["groups"] for rule in group["rules"]):
        page, docs = rule["annotations"]["page_url"], rule["annotations"]["runbook_url"]
        assert is_page(page.removeprefix("{{ $externalLabels.broker_page }}")), rule["alert"]
        name = docs.removeprefix("{{ $externalLabels.broker_docs }}/how-to/").removesuffix(".html")
        assert (Path(__file__).parents[2] / f"docs/how-to/{name}.md").is_file(), rule["alert"]


def is_page(address: str) -> bool:
    """Whether some route of the page answers at an address whose variables are filled."""
    filled = re.sub(r"\$\{[^}]*\}", "x", address)
    return any(re.fullmatch(re.sub(r"\{[^}]*\}", "[^/]+", route), filled) for route in page_routes())


@cache
def page_routes() -> tuple[str, ...]:
    return tuple(route.path for module in pages() for route in importlib.import_module(module).router.routes)


def test_the_dashboard_leads_back_to_pages_that_there_are() -> None:
    links = dashboard()["links"] + [
        one for panel in dashboard()["panels"] for one in panel["fieldConfig"]["defaults"].get("links", [])
    ]
    assert len(links) > 20
    for one in links:
        assert one["url"].startswith("${page}"), one
        assert is_page(one["url"].removeprefix("${page}")), one


def test_links_and_queries_use_labels_that_the_series_have_and_variables_that_there_are() -> None:
    variables = {one["name"] for one in dashboard()["templating"]["list"]}
    assert variables == {"datasource", "page", "vo", "share", "queue"}
    for panel in dashboard()["panels"]:
        grouped = [found for one in panel["targets"] for found in re.findall(r"\bby \(([^)]*)\)", one["expr"])]
        kept = {label for found in grouped for label in found.split(", ")}
        for one in panel["fieldConfig"]["defaults"].get("links", []):
            for text in (one["url"], one["title"]):
                assert set(re.findall(r"labels\.(\w+)", text)) <= kept, panel["title"]
        for target in panel["targets"]:
            assert set(re.findall(r"\$(\w+)", target["expr"])) <= variables, panel["title"]


def test_the_health_of_the_whole_is_counted(database: Database, tmp_path: Path) -> None:
    with database.begin() as connection:
        connection.execute(
            sa.text("""
                INSERT INTO broker.agent_pauses (agent, reason, editor, set_at, until) VALUES
                    ('timeouts', 'r', 'brake', now(), now() + interval '1 h'),
                    ('cric', 'r', 'ann', now(), now() + interval '1 h'),
                    ('sites', 'r', 'ann', now() - interval '2 h', now() - interval '1 h');
                INSERT INTO broker.held_nodes VALUES ('Q', 'a', now() + interval '1 h', 7, 7, 2),
                    ('Q', 'b', now() + interval '1 h', 7, 7, 2), ('R', 'a', now() - interval '1 h', 7, 7, 2);
                INSERT INTO broker.plugin_calls
                VALUES (date_trunc('hour', now()), 'production_job', 'fell_back', 'r', 3);
                INSERT INTO doma_panda.jobsactive4 (pandaid, jobstatus, vo, gshare) VALUES
                    (1, 'running', 'atlas', 'A'), (2, 'running', 'atlas', 'A'), (3, 'activated', NULL, NULL);
                INSERT INTO broker.incidents
                    (id, kind, code, about, severity, sentence, page, began_at, opened_at, seen_at)
                VALUES (gen_random_uuid(), 'alarm', 'c', 'a', 'info', 's', '/', now(), now(), now());
                INSERT INTO broker.notifications
                    (incident, event, channel, address, rule, planned_at, not_before, tries, state, ended_at)
                SELECT id, 'opened', 'ops', n, 'r', now(), now(), tries, state, ended
                FROM broker.incidents, (VALUES ('1', 0, 'waiting', NULL), ('2', 1, 'waiting', NULL),
                    ('3', 1, 'delivered', now()), ('4', 1, 'delivered', now() - interval '2 d'))
                    AS x (n, tries, state, ended)""")
        )  # fmt: skip
    metrics = BrokerMetrics(database, (), lambda: 0.0, tmp_path)
    metrics.text()
    with database.begin() as connection:
        connection.exec_driver_sql("UPDATE broker.plugin_calls SET calls = 5")
    metrics._shown = None
    found = {
        (one.name, *sorted(one.labels.values())): one.value
        for family in text_string_to_metric_families(metrics.text().decode())
        for one in family.samples
    }
    assert found["broker_agent_paused", "brake", "timeouts"] == found["broker_agent_paused", "cric", "operator"] == 1
    assert ("broker_agent_paused", "operator", "sites") not in found
    assert found["broker_nodes_held", "Q"] == 2 and ("broker_nodes_held", "R") not in found
    assert found["broker_plugin_calls_total", "fell_back", "production_job", "r"] == 2
    assert found["broker_jobs", "A", "atlas", "running"] == 2 and found["broker_jobs", "", "", "activated"] == 1
    told = {
        state: found["broker_notifications", *sorted(("ops", state))] for state in ("waiting", "failing", "delivered")
    }
    assert told == {"waiting": 1.0, "failing": 1.0, "delivered": 1.0}
    assert found["broker_database_bytes",] > 1e6
    assert 0 < found["broker_disk_free_bytes",] <= found["broker_disk_bytes",]


@pytest.mark.parametrize("expression", expressions())
def test_expressions_are_promql(expression: str) -> None:
    assert promql.Expression(expression.replace("$__rate_interval", "5m")).kind == "vector"


@pytest.mark.parametrize(
    "expression",
    ["sum(x", "sum(x))", "rate(x)", "x[5m]", "increase(x[5])", "x{a=b}", "x{a=~\"(\"}", "nothing(x)",
     "sum by agent (x)", "x ==", "1 and x", "sum(x[5m])", "x y", "", "max by (a) (x) = 0"],
)  # fmt: skip
def test_what_is_no_promql_is_found(expression: str) -> None:
    with pytest.raises((promql.SyntaxFault, re.error)):
        promql.Expression(expression)


def test_pilots_of_the_submitter_are_counted_by_state_and_those_of_the_last_hour_by_outcome(database: Database) -> None:
    with database.begin() as connection:
        connection.execute(
            sa.text("""
                INSERT INTO broker.submitted_pilots (harvester_id, panda_queue, resource_type, executor, state, outcome,
                    planned_at, ended_at)
                SELECT 'h', 'Q', 'SCORE', 'slurm', state, outcome, now(), now() - make_interval(mins => ago)
                FROM (VALUES ('running', NULL, NULL), ('submitted', NULL, NULL), ('submitted', NULL, NULL),
                    ('ended', 'finished', 1), ('ended', 'finished', 59), ('ended', 'failed', 1),
                    ('ended', 'failed', 61),
                    ('ended', NULL, 1)) AS pilot (state, outcome, ago)""")
        )
    with database.read_snapshot() as connection:
        found = standing(connection, database.names, ())
    families = {one.name: one for one in submitted_pilots(found)}
    counted = {
        name: {sample.labels[label]: sample.value for sample in families[name].samples}
        for name, label in (("broker_submitted_pilots", "state"), ("broker_submitted_pilots_ended", "outcome"))
    }
    assert counted == {
        "broker_submitted_pilots": {"running": 1.0, "submitted": 2.0},
        "broker_submitted_pilots_ended": {"finished": 2.0, "failed": 1.0, "ended": 1.0},
    }
