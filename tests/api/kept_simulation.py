"""A simulation as ``broker simulate --store`` keeps it, without simulating anything."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from broker.app.answers.simulations import KIND
from broker.store.http import runs

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


def keep_simulation(connection: sa.Connection, name: str = "full") -> int:
    """Keep two policies, the second of which is called ``name``, on a grid of that name; its number."""
    line = {"mean": [0.5, 0.7, 0.6], "low": [0.4, 0.6, 0.5], "high": [0.6, 0.8, 0.7]}
    lines = [{"policy": "seed", **line}, {"policy": name, **line}]
    result = {
        "policies": [policy("seed", {}), policy(name, {key: interval(*found) for key, found in DIFFERENCES.items()})],
        "curves": [{"name": "use", "hours": [0.0, 12.0, 24.0], "lines": lines}],
    }
    parameters = {"scenario": name, "days": 1.0, "queues": 20, "cores": 4000, "sites": 8, "shares": [name, "B"]}
    asked = {"grid": name, "policies": ["seed", name], "seeds": 10, "parameters": parameters, "version": "1"}
    return runs.add_done(connection, KIND, asked, "somebody", result, 20, 8.0)
