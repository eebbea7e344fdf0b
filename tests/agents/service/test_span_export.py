"""Spans go where the usual variables of OpenTelemetry say, and nowhere without them."""

from __future__ import annotations

import http.server
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from email.message import Message

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

pytestmark = pytest.mark.slow

Received = list[tuple[str, Message, bytes]]
PROGRAM = """
from agents.service import cycle as traces
traces.note_cycle("production_job", "done", {"load_s": 1.0, "total_s": 2.0}, 10_000_000_000, 7)
"""


@pytest.fixture
def collector() -> Iterator[tuple[str, Received]]:
    """The address of a collector, and the requests that it received."""
    received: Received = []

    class Collecting(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            received.append((self.path, self.headers, body))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *arguments: object) -> None:
            """Log nothing."""

    server = http.server.HTTPServer(("127.0.0.1", 0), Collecting)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}", received
    server.shutdown()
    thread.join()
    server.server_close()


def run(**variables: str) -> None:
    """Make the spans of a cycle in a new process, since a process has one exporter for its whole life."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    environment = {**inherited, "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1", **variables}
    subprocess.run([sys.executable, "-c", PROGRAM], env=environment, check=True, timeout=120)


def test_spans_go_to_the_endpoint_with_its_headers(collector: tuple[str, Received]) -> None:
    address, received = collector
    run(OTEL_EXPORTER_OTLP_ENDPOINT=address, OTEL_EXPORTER_OTLP_HEADERS="x-tenant=grid")
    ((path, headers, body),) = received
    assert (path, headers["x-tenant"]) == ("/v1/traces", "grid")
    (resource,) = ExportTraceServiceRequest.FromString(body).resource_spans
    names = {attribute.key: attribute.value.string_value for attribute in resource.resource.attributes}
    assert names["service.name"] == "gridbroker"
    spans = {span.name: span for scope in resource.scope_spans for span in scope.spans}
    assert set(spans) == {"cycle production_job", "load"}
    assert spans["load"].parent_span_id == spans["cycle production_job"].span_id


def test_without_an_endpoint_nothing_is_sent(collector: tuple[str, Received]) -> None:
    run()
    assert collector[1] == []
