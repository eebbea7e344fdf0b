"""Metrics: documented names, growing counters, bounded labels; and the files for Grafana and Prometheus."""

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
from broker.service.statements.metric_reads import current_state
from broker.store.connection.database import Database
from tests.api.decided import decided_database
from tests.api.serving import client_of, serving, shipped
from tests.conftest import TestServer
from tests.service import promql

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
    by_name: dict[str, dict[tuple[tuple[str, str], ...], float]] = {}
    for family in text_string_to_metric_families(answer.text):
        for sample in family.samples:
            by_name.setdefault(sample.name, {})[tuple(sorted(sample.labels.items()))] = sample.value
    return by_name


def store_counts(database: Database, decisions: int) -> None:
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


def test_counters_grow_by_the_decisions_since_the_last_look(decided: tuple[Database, ApiServer]) -> None:
    database, server = decided
    with client_of(server, {}) as client:
        store_counts(database, 3)
        forget = _forgetter(server)
        forget()
        before = samples(client)
        assert client.get("/no/such/page").status_code == 404
        store_counts(database, 10)
        forget()
        after = samples(client)
    brokerage = ("brokerage", "made")

    def growth(name: str, *labels: tuple[str, str]) -> float:
        return after[name][labels] - before.get(name, {}).get(labels, 0)

    assert growth("broker_decisions_total", brokerage, ("outcome", "pending"), ("reason", "low_memory")) == 7
    assert growth("broker_jobs_assigned_total", brokerage) == 7
    assert growth("broker_rejections_total", brokerage, ("rule", "low_memory")) == 14
    assert growth("broker_cycles_total", ("agent", "made"), ("outcome", "done")) == 1
    assert growth("broker_cycle_seconds_count", ("agent", "made"), ("stage", "load")) == 1
    assert after["broker_tuning_version"][(("process", "host:1"),)] == 7
    assert {dict(labels)["source"] for labels in after["broker_source_usable"]} >= {"queues", "jobs"}
    assert {dict(labels)["queue"] for labels in after["broker_queue_jobs"]} == {"ALPHA_MCORE"}
    assert "broker_leader" in after
    routes = {dict(labels)["route"] for labels in after["broker_http_request_seconds_count"]}
    assert routes == {"/metrics", "other"}


def _forgetter(server: ApiServer) -> Any:
    """A function that drops the cached metrics, so that they are counted again."""
    metrics = server.app.state.api.parts["metrics"]

    def forget() -> None:
        metrics._shown = None

    return forget


def test_growth_begins_at_the_first_look_and_ignores_removed_buckets() -> None:
    growth = Growth()
    assert growth.of({("a",): 5}) == {}
    assert growth.of({("a",): 7, ("b",): 2}) == {("a",): 2, ("b",): 2}
    assert growth.of({("b",): 2}) == {}


def test_candidates_are_no_rejections() -> None:
    counts = QueueCounts(("A", "B"), ("x", CANDIDATE), np.array([[1, 2], [9, 9]]), np.ones((2, 2)), np.ones(2))
    assert rejections_in(counts.pack()) == {"x": 3}


def dashboard() -> dict[str, Any]:
    document: dict[str, Any] = json.loads(path(f"{MONITORING}/grafana-dashboard.json").read_text(encoding="utf-8"))
    return document


def expressions() -> list[str]:
    rules = [rule for group in alerts()["groups"] for rule in group["rules"]]
    panels = dashboard()["panels"]
    return [rule["expr"] for rule in rules] + [target["expr"] for panel in panels for target in panel["targets"]]


def alerts() -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load(path(f"{MONITORING}/alerts.yaml").read_text(encoding="utf-8"))
    return document


def test_dashboard_and_alerts_use_existing_metrics(decided: tuple[Database, ApiServer]) -> None:
    with client_of(decided[1], {}) as client:
        text = client.get("/metrics").text
    known = set(re.findall(r"^# TYPE (\w+) ", text, re.MULTILINE))
    names = {name for expression in expressions() for name in re.findall(r"\bbroker_\w+", expression)}
    assert {re.sub(r"_(bucket|count|sum)$", "", name) for name in names} <= known


def test_alert_rules_are_complete(tmp_path: Path) -> None:
    document = alerts()
    assert set(document) == {"groups"}
    for group in document["groups"]:
        assert set(group) == {"name", "interval", "rules"} and DURATION.fullmatch(group["interval"])
        names = [rule["alert"] for rule in group["rules"]]
        assert len(set(names)) == len(names)
    for rule in (rule for group in document["groups"] for rule in group["rules"]):
        assert set(rule) == {"alert", "expr", "for", "labels", "annotations"}, rule["alert"]
        assert DURATION.fullmatch(rule["for"]) and re.fullmatch(r"[A-Za-z_]\w*", rule["alert"])
        assert rule["labels"]["severity"] in ("critical", "warning")
        assert set(rule["annotations"]) == {"summary", "description", "page_url", "runbook_url"}
        labels = {
            label for label_list in re.findall(r"\bby \(([^)]*)\)", rule["expr"]) for label in label_list.split(", ")
        }
        for text in rule["annotations"].values():
            variables = [template.strip() for template in re.findall(r"{{(.*?)}}", text)]
            assert all(variable in KNOWN or variable.removeprefix("$labels.") in labels for variable in variables), (
                rule["alert"],
                variables,
            )
    promtool = shutil.which("promtool")
    if promtool is not None:
        subprocess.run([promtool, "check", "rules", str(path(f"{MONITORING}/alerts.yaml"))], check=True)


def test_every_alert_links_to_a_page_and_a_runbook() -> None:
    for rule in (rule for group in alerts()["groups"] for rule in group["rules"]):
        page, docs = rule["annotations"]["page_url"], rule["annotations"]["runbook_url"]
        assert is_page(page.removeprefix("{{ $externalLabels.broker_page }}")), rule["alert"]
        name = docs.removeprefix("{{ $externalLabels.broker_docs }}/how-to/").removesuffix(".html")
        assert (Path(__file__).parents[3] / f"docs/how-to/{name}.md").is_file(), rule["alert"]


def is_page(address: str) -> bool:
    """Whether a route of the page serves an address, once its variables are filled in."""
    filled = re.sub(r"\$\{[^}]*\}", "x", address)
    return any(re.fullmatch(re.sub(r"\{[^}]*\}", "[^/]+", route), filled) for route in page_routes())


@cache
def page_routes() -> tuple[str, ...]:
    return tuple(route.path for module in pages() for route in importlib.import_module(module).router.routes)


def test_the_dashboard_links_to_existing_pages() -> None:
    links = dashboard()["links"] + [
        link for panel in dashboard()["panels"] for link in panel["fieldConfig"]["defaults"].get("links", [])
    ]
    assert len(links) > 20
    for link in links:
        assert link["url"].startswith("${page}"), link
        assert is_page(link["url"].removeprefix("${page}")), link


def test_links_and_queries_use_existing_labels_and_variables() -> None:
    variables = {variable["name"] for variable in dashboard()["templating"]["list"]}
    assert variables == {"datasource", "page", "vo", "share", "queue"}
    for panel in dashboard()["panels"]:
        grouped = [
            label_list for target in panel["targets"] for label_list in re.findall(r"\bby \(([^)]*)\)", target["expr"])
        ]
        labels = {label for label_list in grouped for label in label_list.split(", ")}
        for link in panel["fieldConfig"]["defaults"].get("links", []):
            for text in (link["url"], link["title"]):
                assert set(re.findall(r"labels\.(\w+)", text)) <= labels, panel["title"]
        for target in panel["targets"]:
            assert set(re.findall(r"\$(\w+)", target["expr"])) <= variables, panel["title"]


def test_health_metrics_of_the_installation(database: Database, tmp_path: Path) -> None:
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
    values = {
        (sample.name, *sorted(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(metrics.text().decode())
        for sample in family.samples
    }
    assert values["broker_agent_paused", "brake", "timeouts"] == values["broker_agent_paused", "cric", "operator"] == 1
    assert ("broker_agent_paused", "operator", "sites") not in values
    assert values["broker_nodes_held", "Q"] == 2 and ("broker_nodes_held", "R") not in values
    assert values["broker_plugin_calls_total", "fell_back", "production_job", "r"] == 2
    assert values["broker_jobs", "A", "atlas", "running"] == 2 and values["broker_jobs", "", "", "activated"] == 1
    notifications = {
        state: values["broker_notifications", *sorted(("ops", state))] for state in ("waiting", "failing", "delivered")
    }
    assert notifications == {"waiting": 1.0, "failing": 1.0, "delivered": 1.0}
    assert values["broker_database_bytes",] > 1e6
    assert 0 < values["broker_disk_free_bytes",] <= values["broker_disk_bytes",]


@pytest.mark.parametrize("expression", expressions())
def test_expressions_are_promql(expression: str) -> None:
    assert promql.Expression(expression.replace("$__rate_interval", "5m")).kind == "vector"


@pytest.mark.parametrize(
    "expression",
    ["sum(x", "sum(x))", "rate(x)", "x[5m]", "increase(x[5])", "x{a=b}", "x{a=~\"(\"}", "nothing(x)",
     "sum by agent (x)", "x ==", "1 and x", "sum(x[5m])", "x y", "", "max by (a) (x) = 0"],
)  # fmt: skip
def test_invalid_promql_is_refused(expression: str) -> None:
    with pytest.raises((promql.SyntaxFault, re.error)):
        promql.Expression(expression)


def test_submitted_pilots_are_counted_by_state_and_recently_ended_ones_by_outcome(database: Database) -> None:
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
        reads = current_state(connection, database.names, ())
    families = {family.name: family for family in submitted_pilots(reads)}
    counts = {
        name: {sample.labels[label]: sample.value for sample in families[name].samples}
        for name, label in (("broker_submitted_pilots", "state"), ("broker_submitted_pilots_ended", "outcome"))
    }
    assert counts == {
        "broker_submitted_pilots": {"running": 1.0, "submitted": 2.0},
        "broker_submitted_pilots_ended": {"finished": 2.0, "failed": 1.0, "ended": 1.0},
    }
