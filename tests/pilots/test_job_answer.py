from __future__ import annotations

from typing import Any

import pytest

from broker.pilots.model.job_answer import JobFile, filled, job_answer

JOB: dict[str, Any] = {
    "pandaid": 7, "jeditaskid": 3, "lockedby": "jedi", "transformation": "run", "attemptnr": None, "corecount": None,
    "prodsourcelabel": "managed", "maxcpucount": 0, "specialhandling": None,
}  # fmt: skip
FILES = (
    JobFile("a", "input", "ds:in", "ds", "g1", 5, "ad:1", "IN_DISK", token="TOKEN"),
    JobFile("a", "input", "ds:in", "ds", "g1", 5, "ad:1", "IN_DISK"),
    JobFile("b", "input", "ds:in", "ds", fsize=6),
    JobFile("pseudo", "pseudo_input"),
    JobFile("out1", "output", "o.1", "s", endpoint="DISK"),
    JobFile("out2", "output", "o.1", "s", endpoint="DISK", may_be_missing=True),
    JobFile("the.log", "log", "l.1", "s", "g3", endpoint="DISK"),
)


def test_a_job_without_files() -> None:
    answer = job_answer(JOB, (), "-x 1")
    expected = {
        "StatusCode": 0, "PandaID": 7, "transformation": "run", "taskID": 3, "attemptNr": 0, "coreCount": 1,
        "jobPars": "-x 1", "prodSourceLabel": "managed", "inFiles": "", "outFiles": "", "logFile": "", "scopeOut": "",
        "maxCpuCount": 0, "jobsetID": "NULL",
    }  # fmt: skip
    assert {name: answer[name] for name in expected} == expected
    assert "maxWalltime" not in answer
    assert not {"debug", "allowNoOutput", "container_name"} & set(answer)


def test_lists_of_files_have_equal_lengths() -> None:
    answer = job_answer(JOB, FILES, "")
    for name in ("inFiles", "GUID", "fsize", "checksum", "scopeIn", "realDatasetsIn", "ddmEndPointIn"):
        assert len(answer[name].split(",")) == 2, name
    assert (answer["inFiles"], answer["fsize"], answer["GUID"]) == ("a,b", "5,6", "g1,NULL")
    for name in ("outFiles", "realDatasets", "ddmEndPointOut", "destinationDblock"):
        assert len(answer[name].split(",")) == 3, name
    assert answer["outFiles"] == "out1,out2,the.log"
    assert (answer["scopeOut"], answer["scopeLog"]) == ("s,s", "s")
    assert (answer["logFile"], answer["logGUID"], answer["allowNoOutput"]) == ("the.log", "g3", "out2")


def test_flags_are_texts() -> None:
    answer = job_answer(JOB | {"specialhandling": "x,debug", "container_name": "img", "maxwalltime": 60}, (), "")
    assert (answer["debug"], answer["container_name"], answer["maxWalltime"]) == ("True", "img", 60)


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ("-o ${OUTPUT0} ${OUTPUT1} -i ${IN}", "-o out1 out2 -i a,b"),
        ("${OUTPUT2} ${PANDAID} ${SN} ${HOME} $IN", "${OUTPUT2} 7 7 ${HOME} $IN"),
        ("", ""),
    ],
)
def test_placeholders_are_filled(parameters: str, expected: str) -> None:
    assert filled(parameters, 7, FILES) == expected
