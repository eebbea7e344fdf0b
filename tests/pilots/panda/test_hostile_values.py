"""Any content of a request gets an answer of the usual form, never a server error."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from broker.pilots.model.job_report import FIELDS
from broker.pilots.routes.panda.methods import METHODS, READING
from broker.store.connection.database import Database
from tests.pilots.panda.client import Client
from tests.pilots.panda.pilot_grid import AGENT, fill, job

NUMBERS = (
    "0", "-1", "1e308", "1e400", "nan", "-inf", str(2**31), str(2**63 - 1), str(2**63), "99999.99999", "999999.999",
    "9999999.999", "1" * 41, "0x10", "\u0661", " 5 ",
)  # fmt: skip
TEXTS = ("", "NULL", "a" * 5000, "\0", "'; DROP TABLE x; --", "%s %(a)s", ":now", "\u202e", "\U0001f600" * 300, "a,b")
STATES = ("starting", "running", "finished", "failed", "holding", "transferring")
PATIENT = settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])

_AGAIN = """
DELETE FROM doma_panda.job_output_report; UPDATE doma_panda.jobsactive4 SET jobstatus = 'running', batchid = NULL"""


@pytest.fixture
def running(shared_database: Database) -> Database:
    fill(shared_database, [job(5, "running")])
    return shared_database


form_values = st.sampled_from((*NUMBERS, *TEXTS))
json_values = st.one_of(
    form_values,
    st.sampled_from((None, True, 0, -1, 2**31, 2**63, 10**30, 1.5, 1e300, 99999.99999, [], {}, [[]], "\ud800")),
)


@PATIENT
@given(st.dictionaries(st.sampled_from([field.form for field in FIELDS]), form_values, max_size=len(FIELDS)),
       st.sampled_from(STATES), st.sampled_from(TEXTS))  # fmt: skip
def test_reports_with_any_values(
    running: Database, client: Client, fields: dict[str, str], state: str, report: str
) -> None:
    with running.begin() as connection:
        connection.exec_driver_sql(_AGAIN)
    data = {**fields, "jobId": "5", "state": state, "xml": report, "metaData": report, "stdout": report}
    answer = client.post("/server/panda/updateJob", data={**data, "pilotLog": report}, headers=AGENT)
    assert (answer.status_code, answer.json()["StatusCode"]) == (200, 0), answer.text


@PATIENT
@given(st.sampled_from(sorted(set(METHODS) - set(READING))), st.data())
def test_calls_with_any_values(shared_database: Database, client: Client, method: str, data: st.DataObject) -> None:
    names = [name.rstrip("!") for name in METHODS[method].arguments]
    values = data.draw(st.fixed_dictionaries({}, optional=dict.fromkeys(names, json_values)))
    body = json.dumps(values, ensure_ascii=True).encode()
    answer = client.post(f"/api/v1/{method}", content=body, headers={"content-type": "application/json"})
    assert answer.status_code == 200, answer.text
    assert set(answer.json()) == {"success", "message", "data"}


@pytest.mark.parametrize("path", ["%00", "%ED%A0%80", "..%2F..", "'", "a" * 3000, "%25s"])
def test_queue_data_for_any_name(client: Client, path: str) -> None:
    assert client.get(f"/cache/schedconfig/{path}.json").status_code == 404


@pytest.mark.parametrize("values", [{}, {"a": "b"}, {"jobId": ["5"]}, {"jobId": {}, "state": []}, {"state": None}])
@pytest.mark.parametrize("method", ["getJob", "updateJob", "updateJobsInBulk", "updateWorkerPilotStatus", "getStatus"])
def test_json_of_any_shape(client: Client, method: str, values: dict[str, Any]) -> None:
    headers = {**AGENT, "content-type": "application/json"}
    answer = client.post(f"/server/panda/{method}", content=json.dumps(values).encode(), headers=headers)
    assert answer.status_code == 200, answer.text
