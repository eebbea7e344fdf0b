from __future__ import annotations

from typing import Any

import pytest

from broker.pilots.model.job_report import FIELDS, ReportRefused, read_arguments, read_form

FORM = {"jobId": "5", "state": "running", "attemptNr": "0", "siteName": "Q"}


def columns(**fields: Any) -> dict[str, Any]:
    return dict(read_form(FORM | fields).columns)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"node": "h"}, {"modificationhost": "h"}),
        ({"pilotErrorCode": "-1305"}, {"piloterrorcode": 1305}),
        ({"pilotErrorDiag": "x" * 600}, {"piloterrordiag": "x" * 500}),
        ({"jobMetrics": "leak=-12.7 chi2=1.5 " + "y" * 600}, None),
        ({"totRCHAR": "2049", "rateRCHAR": "2049"}, {"totrchar": 2, "raterchar": 2049}),
        ({"totRCHAR": str(10**15)}, {"totrchar": 10**10 - 1}),
        ({"maxRSS": "12.9"}, {"maxrss": 12}),
        ({"maxRSS": "-1"}, {}),
        ({"coreCount": str(2**31)}, {}),
        ({"cpuConsumptionTime": "7.5"}, {"cpuconsumptiontime": 7}),
        ({"cpuConsumptionUnit": "s+Xeon+AVX2"}, {"cpuconsumptionunit": "s+Xeon+AVX2"}),
        ({"cpuConversionFactor": "1.0"}, {"cpuconversion": 1.0}),
        ({"cpuConversionFactor": "inf"}, {}),
        ({"cpuConversionFactor": "99999.99999"}, {}),
        ({"meanCoreCount": "999999"}, {"meancorecount": 999999.0}),
        ({"meanCoreCount": "999999.999"}, {}),
        ({"transExitCode": "3", "exeErrorCode": "-2"}, {"transexitcode": "3", "exeerrorcode": -2}),
        ({"startTime": "1700000000"}, {}),
        ({"nEvents": "NULL"}, {}),
    ],
)  # fmt: skip
def test_fields_become_columns(fields: dict[str, str], expected: dict[str, Any] | None) -> None:
    values = columns(**fields)
    if expected is None:
        assert (values["memory_leak"], values["memory_leak_x2"], len(values["jobmetrics"])) == (-12, 1.5, 500)
    else:
        assert values == expected


def test_unreadable_fields_are_named() -> None:
    assert read_form(FORM | {"maxRSS": "much", "nEvents": "1_000"}).dropped == ("maxRSS", "nEvents")


def test_json_has_rates_in_bytes() -> None:
    report = read_arguments(
        {"job_id": 5, "job_status": "running", "rate_rchar": 2049, "tot_wbytes": 1023, "max_rss": 9}
    )
    assert report.columns == {"raterchar": 2, "totwbytes": 0, "maxrss": 9}


def test_every_column_is_named_once() -> None:
    assert len({field.column for field in FIELDS}) == len({field.form for field in FIELDS}) == len(FIELDS)


@pytest.mark.parametrize("fields", [{"jobId": "x"}, {"jobId": ""}, {"jobId": "-1"}, {"state": ""}])
def test_job_and_state_must_be_given(fields: dict[str, str]) -> None:
    with pytest.raises(ReportRefused):
        read_form(FORM | fields)


def test_long_texts_are_truncated() -> None:
    report = read_form(FORM | {"stdout": "a" * 3000 + "b", "pilotLog": "c" + "d" * 3000, "xml": "{}", "metaData": "m"})
    assert (len(report.stdout), report.stdout[-1]) == (2048, "b")
    assert (len(report.pilot_log), report.pilot_log[0]) == (1024, "c")
    assert (report.output_report, report.metadata, report.attemptnr, report.queue) == ("{}", "m", 0, "Q")


def test_an_invalid_attempt_number_is_none() -> None:
    assert read_form(FORM | {"attemptNr": "None"}).attemptnr is None
    assert read_form(FORM | {"attemptNr": "99999"}).attemptnr is None
