"""A stored simulation: the command, the API and the page show the same figures; and its pictures."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import httpx
import pytest

from broker.simulation.answers.figures_of_merit import FIGURES, cell
from broker.simulation.answers.simulations import Curve, PolicyCurve
from broker.simulation.pages.policies import MOST_CURVES, MOST_LINES, policies_over_hours
from broker.store.connection.database import Database
from tests.cli.commands import runner
from tests.simulation.kept_simulation import keep_simulation
from tests.web.test_other_pages import figures

SCENARIO = """
name: two queues
days: 0.3
warm_up_s: 0
closed: true
shares: {A: 1, <b>B</b>: 2}
sites:
  - {name: S1, is_nucleus: true, storage_total: 1.0e+15, storage_used: 0, storage_out: 1.0e+9, storage_in: 1.0e+9}
queues:
  - {name: Q1, site: 0, nodes: 1, node_cores: 8, node_memory_gb: 64, corepower: 10}
  - {name: Q2, site: 0, nodes: 1, node_cores: 4, node_memory_gb: 64, corepower: 10}
tasks:
  - {number: 1, kind: merge, jobs: 60, arrival_s: 0, share: 0, user: 0, priority: 500, sources: [0]}
  - {number: 2, kind: merge, jobs: 40, arrival_s: 0, share: 1, user: 1, priority: 500, sources: [0]}
"""


@pytest.fixture(scope="module")
def simulate_arguments(decided: Database, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    """Arguments of a command that simulates two policies with two seeds and stores the results."""
    path: Path = tmp_path_factory.mktemp("scenario") / "scenario.yaml"
    path.write_text(SCENARIO, encoding="utf-8")
    policies = ("--policy", "random", "--policy", "least_loaded", "--seeds", "2", "--processes", "1")
    return ("--db", decided.url, "simulate", "--scenario", str(path), *policies, "--store")


def test_command_api_and_page_show_the_same_figures(
    simulate_arguments: tuple[str, ...],
    logged_in_client: httpx.Client,
    stranger: httpx.Client,
    capsys: pytest.CaptureFixture[str],
) -> None:
    result = runner(capsys)(*simulate_arguments, "--json")
    assert result.status == 0, result.err
    number = re.search(r"stored: simulation (\d+)", result.err)
    assert number is not None, result.err
    documents = [json.loads(line) for line in result.out.splitlines()]
    answer = logged_in_client.get(f"/api/v1/simulations/{number[1]}")
    simulation = answer.json()
    assert answer.status_code == 200, answer.text
    for document, policy in zip(documents, simulation["policies"], strict=True):
        assert {name: policy[name] for name in ("policy", "seeds", "figures", "events")} == {
            name: document[name] for name in ("policy", "seeds", "figures", "events")
        }
        verdicts = {name: difference.pop("verdict") for name, difference in policy["differences"].items()}
        assert policy["differences"] == document["differences"]
        assert set(verdicts.values()) <= {"better", "worse", "no_difference", "not_known"}
    page = logged_in_client.get(f"/simulations/{number[1]}")
    check_page(page, documents)
    as_json = logged_in_client.get(f"/simulations/{number[1]}", headers={"Accept": "application/json"})
    assert as_json.json() == logged_in_client.get(f"/api/v1/simulations/{number[1]}").json()
    headers = {"If-None-Match": answer.headers["etag"]}
    assert logged_in_client.get(f"/api/v1/simulations/{number[1]}", headers=headers).status_code == 304
    assert stranger.get(f"/api/v1/simulations/{number[1]}").json()["subject"] == "***"
    list_page = logged_in_client.get("/simulations").text
    assert f'href="/simulations/{number[1]}"' in list_page and "random, least_loaded" in list_page
    assert f'href="/simulations/{number[1]}"' in logged_in_client.get(f"/runs/{number[1]}").text


def check_page(page: httpx.Response, documents: list[dict[str, Any]]) -> None:
    """The rows of figures agree with the command, and every picture has a table."""
    assert page.status_code == 200 and len(page.content) < 150_000, page.text
    rows = {
        row_match[1]: figures(row_match[2]) for row_match in re.finditer(r'<tr id="(\w+)">(.*?)</tr>', page.text, re.S)
    }
    for name in FIGURES:
        values = [document["figures"][name] for document in documents]
        if not any(value["values"] for value in values):
            assert name not in rows
            continue
        for value in values:
            mean = math.inf if value["mean"] is None and value["values"] else value["mean"]
            assert cell(name, mean, value["half_width"]).replace("+-", "±") in rows[name], rows[name]
    labels = re.findall(r'<svg[^>]* aria-label="([^"]+)"', page.text)
    curves = [label.split(" from hour ")[0] for label in labels]
    assert curves[:4] == ["use", "waiting jobs", "transfers waiting", "TB over the WAN"]
    assert "share &lt;b&gt;B" in page.text and "<b>B</b>" not in page.text
    assert page.text.count("<polyline") == 2 * len(labels) and page.text.count("<details") == len(labels) + 1
    assert page.text.count("<table") == page.text.count("<caption>") and page.text.count("<h1>") == 1


def test_a_page_of_many_policies_and_shares_stays_small(decided: Database, logged_in_client: httpx.Client) -> None:
    with decided.begin() as connection:
        number = keep_simulation(connection, "a policy of somebody", others=7, curves=20)
    page = logged_in_client.get(f"/simulations/{number}")
    assert page.status_code == 200 and len(page.content) < 150_000, len(page.content)
    assert page.text.count("<polyline") == MOST_LINES * MOST_CURVES
    assert f"{20 - MOST_CURVES} more curves" in page.text
    assert [page.text.count(f'class="{word}"') for word in ("better", "worse", "no_difference")] == [7, 7, 7]


@pytest.mark.parametrize("address", ["/simulations/999999", "/api/v1/simulations/999999"])
def test_an_unknown_simulation_is_not_found(logged_in_client: httpx.Client, address: str) -> None:
    assert logged_in_client.get(address).status_code == 404


def curve(policies: int) -> Curve:
    """A curve with one line per policy over 40 hours; the first line is the same for all seeds."""
    hours = tuple(float(at) for at in range(41))
    lines = [
        PolicyCurve(
            policy=f"<p{number}>",
            mean=tuple(number + hour for hour in hours),
            low=tuple(max(0.0, hour - number) for hour in hours) if number else hours,
            high=tuple(hour + 2 * number for hour in hours),
        )
        for number in range(policies)
    ]
    return Curve(name="waiting jobs", hours=hours, lines=tuple(lines))


def test_a_curve_has_a_line_per_policy_and_a_range_where_seeds_differ() -> None:
    picture = str(policies_over_hours(curve(3), 11))
    lines = re.findall(r'<polyline points="([^"]+)" class="line policy-(\d)">', picture)
    assert [number for _, number in lines] == ["0", "1", "2"]
    assert {len(points.split()) for points, _ in lines} == {11}
    assert re.findall(r'class="range policy-(\d)"', picture) == ["1", "2"]
    assert "<p1>" not in picture and "&lt;p1&gt; 41 at the end" in picture
    first, last = lines[0][0].split()[0], lines[0][0].split()[-1]
    assert first == "0,200.0" and last.startswith("1000,"), "from the left to the right, 0 at the bottom"
    assert 0 <= float(last.partition(",")[2]) < 200, "the highest value fits below the top"


def test_a_picture_shows_at_most_one_policy_per_style() -> None:
    assert str(policies_over_hours(curve(MOST_LINES + 2), 9)).count("<polyline") == MOST_LINES


def test_a_curve_of_one_instant_is_drawn() -> None:
    single = Curve(name="use", hours=(0.0,), lines=(PolicyCurve(policy="seed", mean=(0.0,), low=(0.0,), high=(0.0,)),))
    assert 'points="0,200.0"' in str(policies_over_hours(single, 9))
