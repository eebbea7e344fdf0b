"""Classes of error codes: every code of the fact sheet, the codes of a job, and invalid files."""

from __future__ import annotations

from typing import Any

import pytest

from broker.history.model.error_classes import ErrorClasses, WrongErrorClasses, WrongErrorFilter, read_error_classes
from broker.resources import path

FILE = path("config/error_classes.yaml")
SHIPPED = read_error_classes(FILE.read_text(encoding="utf-8"), "error_classes.yaml")
# Each code with the letters of its faults (see LETTERS), the default first.
PILOT = {
    1098: "s", 1099: "ds", 1100: "d", 1103: "d", 1104: "p", 1106: "p", 1110: "sp", 1334: "sp", 1116: "ys", 1117: "ys",
    1124: "p", 1137: "sd", 1144: "y", 1150: "ps", 1151: "ds", 1152: "sd", 1163: "y", 1177: "y", 1373: "y", 1165: "p",
    1171: "d", 1172: "s", 1186: "s", 1211: "s", 1376: "s", 1378: "s", 1201: "sy", 1200: "sy", 1203: "pr", 1212: "pr",
    1213: "pr", 1220: "p", 1223: "pr", 1235: "pr", 1305: "p", 1306: "s", 1307: "s", 1308: "s", 1309: "s", 1325: "s",
    1340: "s", 1345: "s", 1372: "s", 1315: "p", 1316: "y", 1322: "y", 1324: "sy", 1327: "sy", 1328: "p", 1332: "s",
    1333: "s", 1331: "d", 1326: "d", 1344: "s", 1361: "ds", 1368: "ds", 1377: "s", 1379: "ns",
}  # fmt: skip
OTHERS = {
    ("ddm", 200): "yd", ("ddm", 201): "yd", ("ddm", 203): "yd", ("ddm", 206): "yd", ("ddm", 204): "p",
    ("ddm", 205): "p", ("jobDispatcher", 100): "sy", ("jobDispatcher", 102): "sy", ("jobDispatcher", 103): "sy",
    ("jobDispatcher", 104): "sy", ("jobDispatcher", 105): "sy", ("taskBuffer", 100): "yu", ("taskBuffer", 101): "yu",
    ("taskBuffer", 102): "yu", ("taskBuffer", 103): "uy", ("taskBuffer", 105): "ny", ("taskBuffer", 106): "ny",
    ("taskBuffer", 107): "ny", ("taskBuffer", 130): "ny", ("taskBuffer", 300): "s", ("trans", 137): "pr",
    ("trans", 139): "p", ("trans", 143): "sy", ("trans", 63): "p", ("trans", 64): "sy", ("trans", 83): "sy",
    ("trans", 84): "p", ("sup", 1000): "s", ("sup", 1001): "ns", ("sup", 3000): "s", ("sup", 4999): "s",
    ("sup", 9000): "sy",
}  # fmt: skip
LETTERS = {"s": "site", "p": "payload", "d": "data", "y": "system", "u": "user", "r": "request", "n": "none"}


@pytest.mark.parametrize(("source", "code"), [*(("pilot", code) for code in PILOT), *OTHERS])
def test_every_code_of_the_fact_sheet_has_its_class_and_faults(source: str, code: int) -> None:
    error_class = SHIPPED.of(source, code)
    assert error_class is not None and error_class.meaning
    letters = PILOT[code] if source == "pilot" else OTHERS[source, code]
    assert error_class.faults == tuple(LETTERS[letter] for letter in letters)


@pytest.mark.parametrize(
    ("job", "labels"),
    [
        ({"piloterrorcode": 1099}, ["pilot:1099"]),
        ({"piloterrorcode": 1305, "transexitcode": "137"}, ["trans:137", "pilot:1305"]),
        ({"piloterrorcode": 1305, "transexitcode": "0"}, ["pilot:1305"]),
        ({"piloterrorcode": 1305, "transexitcode": "what"}, ["pilot:1305"]),
        ({"piloterrorcode": 4242, "jobdispatchererrorcode": 100}, ["jobDispatcher:100", "pilot:4242"]),
        ({"exeerrorcode": 7}, ["exe:7"]),
        ({}, ["vanished"]),
        ({"jobstatus": "running"}, []),
        ({"jobstatus": "closed", "taskbuffererrorcode": 100}, ["taskBuffer:100"]),
    ],
)
def test_the_codes_of_a_job_are_decoded_most_specific_first(job: dict[str, Any], labels: list[str]) -> None:
    failures = SHIPPED.decode({"jobstatus": "failed", **job})
    assert [failure.error for failure in failures] == labels


def test_an_unknown_code_is_marked_as_unknown() -> None:
    (failure,) = SHIPPED.decode({"jobstatus": "failed", "piloterrorcode": 4242, "piloterrordiag": "odd"})
    assert (failure.error_class, failure.fault, failure.diag) == ("unknown", "unknown", "odd")


@pytest.mark.parametrize(
    ("error", "code_range"),
    [
        ("1099", ("pilot", 1099, 1099)), ("trans:137", ("trans", 137, 137)), ("taskbuffer:7", ("taskBuffer", 7, 7)),
        ("memory", ("trans", 137, 137)), ("site", ("sup", 3000, 3999)), ("vanished", ("none", 0, 0)),
    ],
)  # fmt: skip
def test_filters_are_resolved_to_code_ranges(error: str, code_range: tuple[str, int, int]) -> None:
    assert code_range in SHIPPED.ranges_of(error)


@pytest.mark.parametrize("error", ["memori", "pilo:1099", "", "pilot:", "12345678"])
def test_an_invalid_error_filter(error: str) -> None:
    with pytest.raises(WrongErrorFilter):
        SHIPPED.ranges_of(error)


GOOD = "- {source: pilot, codes: [1], class: a_b, faults: [site], meaning: m}\n"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("- {source: pilto, codes: [1], class: ab, faults: [site], meaning: m}", "f.yaml line 3; did you mean pilot?"),
        ("- {source: exe, codes: [1], class: Ab, faults: [site], meaning: m}", "class is Ab; f.yaml line 3"),
        ("- {source: exe, codes: [1], class: ab, faults: [sight], meaning: m}", "line 3; write a list of site"),
        ("- {source: exe, codes: [1], class: ab, faults: [], meaning: m}", "faults is []; f.yaml line 3"),
        ("- {source: exe, codes: [9-3], class: ab, faults: [site], meaning: m}", "codes has 9-3; f.yaml line 3"),
        ("- {source: exe, codes: 7, class: ab, faults: [site], meaning: m}", "codes is 7; f.yaml line 3"),
        ("- {source: exe, codes: [0], class: ab, faults: [site], meaning: m}", "codes has 0; f.yaml line 3"),
        ("- {source: none, codes: [1], class: ab, faults: [site], meaning: m}", "codes of source none; f.yaml line 3"),
        ("- {source: exe, codes: [1], class: ab, faults: [site]}", "meaning is missing; f.yaml line 3"),
        ("- {source: exe, codes: [1], class: ab, faults: [site], meaning: m, x: 1}", "not a class of codes"),
        ("- {source: pilot, codes: [1-5], class: ab, faults: [site], meaning: m}", "pilot stands twice; f.yaml"),
        ("- {source: exe, codes: [1], class: ab, faults: [site], meaning: m, see: x}", "see is x: there is no"),
        ("log_url: ftp://x", "log_url is ftp://x; f.yaml line 3; write http(s)://"),
        ("log_url: 'https://x/{pandaID}'", "f.yaml line 3; write http(s)://... with fields attemptnr"),
        ("log_url: 'https://x/{'", "log_url is https://x/{; f.yaml line 3"),
        ("other: 1", "unknown key other"),
        ("- {", "f.yaml; correct the file"),
    ],
)  # fmt: skip
def test_an_invalid_file_is_refused_with_its_line(line: str, message: str) -> None:
    with pytest.raises(WrongErrorClasses) as refusal:
        read_error_classes(f"classes:\n{GOOD}{line}\n", "f.yaml")
    assert message in str(refusal.value)


@pytest.mark.parametrize("text", ["", "[]", "classes: 3", "a: 1"])
def test_a_file_without_classes_is_refused(text: str) -> None:
    with pytest.raises(WrongErrorClasses, match="no list of classes"):
        read_error_classes(text, "f.yaml")


def test_the_address_of_a_log() -> None:
    classes = ErrorClasses((), "https://logs/{jeditaskid}/{pandaid}/{log}")
    assert classes.log_of({"jeditaskid": 1, "pandaid": 2, "log": "a.tgz"}) == "https://logs/1/2/a.tgz"
    assert classes.log_of({"jeditaskid": 1, "pandaid": 2, "log": None}) is None
    assert ErrorClasses(()).log_of({}) is None
