"""A span of OpenTelemetry for each cycle and each of its stages; nothing without the extra ``telemetry``.

The exporter is configured by the usual variables (``OTEL_EXPORTER_OTLP_ENDPOINT`` and the like); without an endpoint no
spans are made.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cache
from importlib.util import find_spec
from typing import Any

_NS = 1_000_000_000
SCOPE = "gridbroker"


def note_cycle(agent: str, outcome: str, timings: Mapping[str, float], ended_ns: int, run: int | None = None) -> None:
    """Make the spans of a cycle that has ended.

    Args:
        agent: that ran it.
        outcome: of the cycle.
        timings: seconds by stage, with ``total_s``; the stages followed one another in this order.
        ended_ns: when it ended, in nanoseconds since 1970.
        run: its row in ``agent_runs``.
    """
    tracer = _tracer()
    if tracer is None:
        return
    total_s = float(timings.get("total_s", sum(timings.values())))
    began_ns = ended_ns - int(total_s * _NS)
    attributes: dict[str, Any] = {"agent": agent, "outcome": outcome}
    if run is not None:
        attributes["run"] = run
    from opentelemetry import trace

    span = tracer.start_span(f"cycle {agent}", start_time=began_ns, attributes=attributes)
    at_ns = began_ns
    for stage, seconds in timings.items():
        if stage == "total_s":
            continue
        inside = trace.set_span_in_context(span)
        part = tracer.start_span(stage.removesuffix("_s"), context=inside, start_time=at_ns)
        at_ns = min(ended_ns, at_ns + int(float(seconds) * _NS))
        part.end(at_ns)
    span.end(ended_ns)


@cache
def _tracer() -> Any:
    """The tracer; None where nothing is installed or configured."""
    if find_spec("opentelemetry") is None or find_spec("opentelemetry.sdk") is None:
        return None
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider

    if isinstance(trace.get_tracer_provider(), TracerProvider):
        return trace.get_tracer(SCOPE)
    if not any(os.environ.get(name) for name in ENDPOINTS):
        return None
    return _exporting()


ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")


def _exporting() -> Any:
    from opentelemetry import trace
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    provider = TracerProvider(resource=Resource.create({"service.name": SCOPE}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(provider)
    return trace.get_tracer(SCOPE)
