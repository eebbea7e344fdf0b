"""The API matches its description: described requests do not fail, and answers conform to it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import hypothesis
import pytest

from broker.api.server import ApiServer
from tests.api.decided import decided_server
from tests.api.serving import BEARER
from tests.conftest import TestServer

if TYPE_CHECKING:
    import schemathesis  # takes a second to import: runs of other tests do not wait for it
    from schemathesis.checks import CheckFunction

EXAMPLES = 2
#: These start processes; other tests cover their bodies.
RUNS = ("/api/v1/what-if", "/api/v1/sweep", "/api/v1/replay", "/api/v1/config:preview")
#: They answer 503 while no service is running, which is no failure of the API.
PROBES = ("/health/ready",)
CHECKED = (
    "not_a_server_error",
    "response_schema_conformance",
    "status_code_conformance",
    "content_type_conformance",
)


@pytest.fixture(scope="module")
def server(test_server: TestServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    with decided_server(test_server, tmp_path_factory.mktemp("home")) as (_, api):
        yield api


def checks() -> list[CheckFunction]:
    from schemathesis.checks import CHECKS

    return CHECKS.get_by_names(list(CHECKED))


@pytest.mark.slow
@pytest.mark.parametrize("headers", [BEARER, {}], ids=["with a token", "without a token"])
def test_every_described_request_is_answered(server: ApiServer, headers: dict[str, str]) -> None:
    import schemathesis

    schema = schemathesis.openapi.from_url(f"{server.url}/api/v1/openapi.json")
    tested, failures = 0, []
    for result in schema.get_all_operations():
        operation = result.ok()
        if operation.path in RUNS + PROBES:
            continue
        tested += 1

        @hypothesis.settings(
            max_examples=EXAMPLES if headers else 1,
            deadline=None,
            database=None,
            derandomize=True,
            suppress_health_check=list(hypothesis.HealthCheck),
            phases=[hypothesis.Phase.generate],
        )
        @hypothesis.given(case=operation.as_strategy())
        def is_answered(case: schemathesis.Case) -> None:
            response = case.call(base_url=server.url, headers=headers)
            case.validate_response(response, checks=checks())

        try:
            is_answered()
        except* Exception as group:
            failures += [f"{operation.label}: {error}" for error in group.exceptions]
    assert failures == []
    assert tested > 40
