from __future__ import annotations

import time

import pytest
from hypothesis import given, strategies as st

from broker.formats.model.sss.model import KINDS
from broker.formats.model.sss.reading import read_document
from broker.formats.model.sss.xml_reading import BadDocumentError
from tests.formats.sss.documents import document, problems_of

MANY_FAULTS = """<Job>
  <JobId>a</JobId>
  <JobId>b</JobId>
  <JobState>Sleeping</JobState>
  <Processors>few</Processors>
  <Memory units="GiB">2</Memory>
  <WallDuration>-60</WallDuration>
  <StartTime>2023-11-14T22:13:20Z</StartTime>
  <Interactive>1</Interactive>
</Job>"""


def test_every_problem_is_reported_with_its_line() -> None:
    assert problems_of(MANY_FAULTS) == [
        "3: JobId: more than one",
        "4: JobState: unknown value Sleeping",
        "5: Processors: not an integer",
        "6: Memory units: unknown unit GiB",
        "7: WallDuration: negative",
        "8: StartTime: not an integer epoch",
        "9: Interactive: not true or false",
    ]


def test_a_problem_is_reported_in_the_form_of_a_compiler() -> None:
    with pytest.raises(BadDocumentError) as caught:
        read_document(b"<Job>\n<JobId>a</JobId><Interactive>yes</Interactive></Job>")
    assert caught.value.kind == "invalid-values"
    text = caught.value.problems[0].reported("f.xml")
    assert text == ("f.xml:2: Interactive: not true or false; expected true or false")


def job(inside: str) -> str:
    return f"<Job><JobId>j</JobId>{inside}</Job>"


def job_with_pattern(pattern: str) -> str:
    return job(f"<Requested><NodeProperties><Name op='match'>{pattern}</Name></NodeProperties></Requested>")


@pytest.mark.parametrize("pattern", ["wn0.*", "a?b+c*", r"x\.[a-z0-9_]+[^b]", r"\d.", "a" * 128])
def test_simple_patterns(pattern: str) -> None:
    assert problems_of(job_with_pattern(pattern)) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<Work/>", "1: Work: unknown document"),
        ("<job/>", "1: job: unknown document"),
        ("<Job><UserId>x</UserId></Job>", "1: Job: JobId is missing"),
        ("<Job><JobId/></Job>", "1: Job: JobId is missing"),
        ("<Job>j</Job>", "1: Job: only a reference"),
        ("<JobGroup><JobGroupId>g</JobGroupId></JobGroup>", "1: JobGroup: at least one Job required"),
        (
            "<JobGroup><JobGroupId>g</JobGroupId><JobDefaults/><JobDefaults/><Job>j</Job></JobGroup>",
            "1: JobDefaults: more than one",
        ),
        (job("<Requested/><Requested/>"), "1: Requested: more than one"),
        (job("<Task/>"), "1: Task: not inside Job"),
        (job("<UserId><b>x</b></UserId>"), "1: UserId: elements inside a value"),
        (job("<Extension>x</Extension>"), "1: Extension: without a name"),
        (job("<Environment><Variable>x</Variable></Environment>"), "1: Variable: name '' is empty, holds = or is there twice"),  # noqa: E501
        (job("<Environment><X/></Environment>"), "1: X: not a variable"),
        (
            job('<Delivered><Memory metric="Average" units="MB">1</Memory><Memory metric="avg" units="MB">2</Memory></Delivered>'),  # noqa: E501
            "1: Memory: more than one",
        ),
        (job('<Requested><Processors op="near">1</Processors></Requested>'), "1: Processors: unknown op near"),
        (job('<Requested><Processors conj="xor">1</Processors></Requested>'), "1: Processors: unknown conj xor"),
        (job('<Requested><Processors group="x">1</Processors></Requested>'), "1: Processors: group is no whole number"),
        (
            job('<Requested><Processors group="1">1</Processors><Processors group="1">2</Processors></Requested>'),
            "1: group attributes do not balance under either sign convention",
        ),
        (job('<Delivered><Processors consumptionRate="-1">1</Processors></Delivered>'), "1: Processors: consumptionRate -1 is no usable number"),  # noqa: E501
        (job("<WallDuration>4294967296</WallDuration>"), "1: WallDuration: too large"),
        (job("<WallDuration>1e3</WallDuration>"), "1: WallDuration: not an integer"),
        (job(f"<Priority>{10**30}</Priority>"), "1: Priority: not an integer"),
        (job("<Charge>NaN</Charge>"), "1: Charge: not a number"),
        (job("<Memory>-1</Memory>"), "1: Memory: negative"),
        (job_with_pattern("(a)"), "1: Name: unusable pattern (a)"),
        (job_with_pattern("a{2}"), "1: Name: unusable pattern a{2}"),
        (job_with_pattern("a|b"), "1: Name: unusable pattern a|b"),
        (job_with_pattern("a*+"), "1: Name: unusable pattern a*+"),
        (job_with_pattern("[a"), "1: Name: unusable pattern [a"),
        (job_with_pattern("[z-a]"), "1: Name: unusable pattern [z-a]"),
        (job_with_pattern("\\1"), "1: Name: unusable pattern \\1"),
        (job_with_pattern("a" * 129), f"1: Name: unusable pattern {'a' * 40}"),
        (job("<JobName>a\nb</JobName>"), "1: JobName: control characters"),
        (job('<Strange awarenessPolicy="Reject"/>').replace("<Job>", '<Job awarenessPolicy="Reject">'), "1: Strange: unknown element"),  # noqa: E501
    ],
)  # fmt: skip
def test_a_document_with_one_problem(text: str, expected: str) -> None:
    assert expected in problems_of(text)


@pytest.mark.parametrize("name", ["simple", "delivered", "group", "exported"])
def test_good_documents(name: str) -> None:
    assert document(name).warnings == ()


@pytest.mark.parametrize(
    ("policy", "warnings", "valid"), [("Warn", 2, True), ("Ignore", 0, True), ("Reject", 0, False), ("", 2, True)]
)
def test_unknown_elements_are_handled_by_the_policy(policy: str, warnings: int, valid: bool) -> None:
    policy_attribute = f' awarenessPolicy="{policy}"' if policy else ""
    text = f'<Job{policy_attribute}><JobId>j</JobId><Colour depth="8"><Red/></Colour><UserId hue="x">u</UserId></Job>'
    if not valid:
        assert len(problems_of(text)) == 2
        return
    document_read = read_document(text.encode())
    assert len(document_read.warnings) == warnings
    assert [element.name for element in document_read.root.unknown] == ["Colour"]


def test_spelling_does_not_matter_in_attributes_and_choices() -> None:
    (level,) = read_document(
        job('<JobState>idle</JobState><Requested><Memory OP="x" units="MB" op="ge">1</Memory></Requested>').encode()
    ).jobs
    assert level.text("JobState") == "Idle"
    assert level.requested is not None
    assert level.requested.properties[0].attributes["op"] == "GE"


def test_a_size_without_units_is_read_as_mb_with_a_warning() -> None:
    document_read = read_document(job("<Requested><Memory>512</Memory></Requested>").encode())
    assert document_read.warnings == ("line 1: Memory without units: MB assumed",)


@given(st.lists(st.tuples(st.sampled_from(sorted(KINDS)), st.text(max_size=20)), max_size=6))
def test_any_value_gives_only_problems(properties: list[tuple[str, str]]) -> None:
    inside = "".join(f"<{name}><![CDATA[{text.replace(']]>', '')}]]></{name}>" for name, text in properties)
    for problem in problems_of(job(inside).encode("utf-8", "replace")):
        assert ": " in problem


def job_with_conditions(groups: list[int]) -> str:
    inside = "".join(
        f'<Processors conj="Or" group="{group}">{number}</Processors>' for number, group in enumerate(groups)
    )
    return job(f"<Requested>{inside}</Requested>")


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize(("opening_groups", "depth"), [([20, 20, 20, 4], 0), ([20, 20, 20, 5], 65), ([20] * 20, 400)])
def test_the_nesting_of_parentheses_is_limited(opening_groups: list[int], depth: int, sign: int) -> None:
    problems = problems_of(
        job_with_conditions([sign * group for group in (*opening_groups, *(-group for group in opening_groups))])
    )
    assert problems == ([f"1: group attributes open {depth} parentheses inside each other"] if depth else [])


def group_of_jobs(defaults: str, jobs: int, inside: str = "") -> str:
    members = "".join(f"<Job><JobId>j{number}</JobId>{inside}</Job>" for number in range(jobs))
    return f"<JobGroup><JobGroupId>g</JobGroupId><JobDefaults>{defaults}</JobDefaults>{members}</JobGroup>"


def extensions(count: int) -> str:
    return "".join(f'<Extension name="e{number}"/>' for number in range(count))


def variables(count: int) -> str:
    return "".join(f'<Variable name="v{number}">1</Variable>' for number in range(count))


@pytest.mark.parametrize(
    ("text", "inherited"),
    [
        (group_of_jobs(extensions(250), 2000), 500_000),
        (group_of_jobs(extensions(250), 2001), 500_250),
        (group_of_jobs(extensions(3000), 3400), 10_200_000),
        (group_of_jobs(f"<Environment>{variables(600)}</Environment>", 900), 540_000),
        (group_of_jobs("<Requested>" + "<Feature>f</Feature>" * 600 + "</Requested>", 900), 540_000),
        (group_of_jobs("<TaskGroup>" + "<Task/>" * 600 + "</TaskGroup>", 900), 541_800),
        (group_of_jobs("<TaskGroup>" + "<Task/>" * 600 + "</TaskGroup>", 900, "<Hold>User</Hold>"), 542_700),
        (group_of_jobs("<TaskGroup/>" * 3000, 3400), 20_400_000),
        (group_of_jobs("<TaskGroup/>" * 300, 900, "<TaskGroupDefaults><Queue>q</Queue></TaskGroupDefaults>"), 810_000),
    ],
)  # fmt: skip
def test_the_number_of_inherited_values_is_limited(text: str, inherited: int) -> None:
    problems = problems_of(text)
    assert problems == ([] if inherited <= 500_000 else [f"1: {inherited} inherited values"])


def test_3000_defaults_of_3400_jobs_are_refused_quickly() -> None:
    text = group_of_jobs(extensions(3000), 3400)
    start = time.process_time()
    assert problems_of(text)
    assert time.process_time() - start < 2.0


def test_20_nested_levels_are_reported_as_a_problem() -> None:
    for name in ("JobGroup", "Job", "TaskGroup", "Requested", "Odd"):
        text = f"<JobGroup>{f'<{name}>' * 20}{f'</{name}>' * 20}</JobGroup>"
        assert problems_of(text) == ["1: elements 13 deep"]
