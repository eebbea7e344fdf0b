"""A simulation as stored by ``broker simulate --store``, without simulating anything."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from broker.simulation.answers.simulations import KIND
from broker.whatif.statements import runs

DIFFERENCES = {"use": (0.02, 0.01), "wait_95_s": (60.0, 20.0), "jain": (0.01, 0.02), "makespan_s": (None, None)}


def interval(mean: float | None, half_width: float | None) -> dict[str, Any]:
    """An interval of ten seeds."""
    return {"mean": mean, "half_width": half_width, "values": 10, "enough_seeds": True}


def policy(label: str, differences: dict[str, Any]) -> dict[str, Any]:
    """The figures of a policy."""
    means = {"use": (0.9, 0.01), "wait_95_s": (3600.0, 60.0), "jain": (0.8, 0.01), "makespan_s": (None, None)}
    figures = {name: interval(*values) for name, values in means.items()}
    took = {"events": 1000, "decide_s": 1.5, "total_s": 4.0}
    return {"kind": "policy", "policy": label, "seeds": [1, 2], "figures": figures, "differences": differences, **took}


def keep_simulation(connection: sa.Connection, name: str = "full", others: int = 1, curves: int = 1) -> int:
    """Store a simulation of ``seed`` and policies called ``name`` on a grid of that name; returns its number."""
    steps = [0.1234 + number / 200 for number in range(120)]
    line = {"mean": steps, "low": [step / 2 for step in steps], "high": [step * 1.1 for step in steps]}
    names = [name, *(f"{name} {number}" for number in range(1, others))]
    lines = [{"policy": label, **line} for label in ("seed", *names)]
    differences = {key: interval(*values) for key, values in DIFFERENCES.items()}
    result = {
        "policies": [policy("seed", {}), *(policy(label, differences) for label in names)],
        "curves": [
            {"name": f"share {number}", "hours": [number / 2 for number in range(120)], "lines": lines}
            for number in range(curves)
        ],
    }
    parameters = {"scenario": name, "days": 1.0, "queues": 20, "cores": 4000, "sites": 8, "shares": [name, "B"]}
    request = {"grid": name, "policies": ["seed", name], "seeds": 10, "parameters": parameters, "version": "1"}
    return runs.add_done(connection, KIND, request, "somebody", result, 20, 8.0)
