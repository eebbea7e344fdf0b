"""The description of the API is kept: whatever fits it is answered without a failure, and answers fit it."""

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
    import schemathesis  # takes a second to import; who runs one test of others does not wait for it
    from schemathesis.checks import CheckFunction

EXAMPLES = 2
#: These start processes; their bodies are tested one by one.
RUNS = ("/api/v1/what-if", "/api/v1/sweep", "/api/v1/replay", "/api/v1/config:preview")
#: It says 503 while no service is alive, which is no failure of the API.
PROBES = ("/health/ready",)
LOOKED_AT = (
    "not_a_server_error",
    "response_schema_conformance",
    "status_code_conformance",
    "content_type_conformance",
)


@pytest.fixture(scope="module")
def server(test_server: TestServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    with decided_server(test_server, tmp_path_factory.mktemp("home")) as (_, found):
        yield found


def checks() -> list[CheckFunction]:
    from schemathesis.checks import CHECKS

    return CHECKS.get_by_names(list(LOOKED_AT))


@pytest.mark.slow
@pytest.mark.parametrize("headers", [BEARER, {}], ids=["with a token", "without a token"])
def test_whatever_fits_the_description_is_answered(server: ApiServer, headers: dict[str, str]) -> None:
    import schemathesis

    schema = schemathesis.openapi.from_url(f"{server.url}/api/v1/openapi.json")
    seen, failures = 0, []
    for found in schema.get_all_operations():
        operation = found.ok()
        if operation.path in RUNS + PROBES:
            continue
        seen += 1

        @hypothesis.settings(
            max_examples=EXAMPLES if headers else 1,
            deadline=None,
            database=None,
            derandomize=True,
            suppress_health_check=list(hypothesis.HealthCheck),
            phases=[hypothesis.Phase.generate],
        )
        @hypothesis.given(case=operation.as_strategy())
        def answered(case: schemathesis.Case) -> None:
            response = case.call(base_url=server.url, headers=headers)
            case.validate_response(response, checks=checks())

        try:
            answered()
        except* Exception as group:
            failures += [f"{operation.label}: {error}" for error in group.exceptions]
    assert failures == []
    assert seen > 40
