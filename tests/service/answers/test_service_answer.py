"""Agents with their cycles, on the example grid."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from broker.service.answers.service import service_answer

Ask = Callable[..., Any]


def test_agents_with_their_cycles(query_demo: Ask) -> None:
    answer = query_demo(service_answer)
    line = {agent.agent: agent for agent in answer.agents}["production_job"]
    assert (line.last_outcome, line.cycles_24h, line.failed_24h, line.pause) == ("done", 1, 0, None)
    assert line.mean_s is not None and line.age_s is not None and line.age_s >= 0
