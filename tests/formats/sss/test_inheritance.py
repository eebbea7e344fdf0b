from __future__ import annotations

from broker.formats.model.sss.description import describe
from broker.formats.model.sss.inheritance import remarks_on, whole_jobs
from broker.formats.model.sss.reading import read_document
from tests.formats.sss.documents import document, job_with


def test_the_nearest_value_counts() -> None:
    first, second = whole_jobs(document("group"))
    assert first.inherited == (
        "SubmitHost", "ProjectId", "GlobalUserId", "UserId", "Queue", "Feature", "Requested", "Environment",
    )  # fmt: skip
    assert first.job.text("Queue") == "long"
    assert second.job.text("Queue") is None  # an empty element removes it
    assert second.job.environment == {"LANG": "C", "PATH": "/opt/bin"}


def test_blocks_are_merged_name_by_name() -> None:
    requested = describe(document("group"))["jobs"][0]["requested"]
    assert requested == {"WallDuration": [["EQ", 3600]], "Memory_bytes": [["EQ", 2000 * 2**20]]}


def test_lists_are_replaced_and_not_added() -> None:
    text = """<JobGroup><JobGroupId>g</JobGroupId><JobDefaults><Feature>a</Feature><Feature>b</Feature>
    <Extension name="x">1</Extension><Extension name="y">2</Extension></JobDefaults>
    <Job><JobId>j</JobId><Feature>c</Feature><Extension name="y">3</Extension></Job></JobGroup>"""
    (whole,) = whole_jobs(read_document(text.encode()))
    assert [feature.value for feature in whole.job.all_of("Feature")] == ["c"]
    assert (whole.job.extension("x"), whole.job.extension("y")) == ("1", "3")


def test_identifiers_and_states_are_not_inherited() -> None:
    text = """<JobGroup><JobGroupId>g</JobGroupId><JobDefaults><GlobalJobId>d</GlobalJobId><JobState>Running</JobState>
    </JobDefaults><Job><JobId>j</JobId></Job></JobGroup>"""
    (whole,) = whole_jobs(read_document(text.encode()))
    assert (whole.job.text("GlobalJobId"), whole.job.text("JobState")) == (None, None)


def test_task_groups_inherit_from_their_defaults_and_their_job() -> None:
    master, worker = describe(document("group"))["jobs"][1]["task_groups"]
    assert master["Executable"] == worker["Executable"] == "/opt/stage"
    assert master["requested"] == {"WallDuration": [["EQ", 3600]], "Memory_bytes": [["EQ", 4096 * 2**20]]}
    assert (master["TaskCount"], worker["TaskCount"], worker["NodeCount"]) == (1, None, 4)
    assert master["resources"] == [["License", "Solver", 1]]
    assert master["features"] == ["fast-network"]
    assert worker["requested"] == {
        "WallDuration": [["EQ", 3600]],
        "Memory_bytes": [["EQ", 1000 * 2**20]],
        "Processors_expression": "(Processors EQ 12 OR Processors EQ 16)",
        "NodeName_pattern": "wn[0-9]+",
    }


def test_tasks_inherit_from_their_defaults() -> None:
    first, second = describe(document("group"))["jobs"][0]["tasks"]
    assert first == {"SessionId": "s1", "Node": "wn1", "ProcessId": 11}
    assert second == {"SessionId": "s1", "Node": "wn2", "ProcessId": 12}


def test_bare_resources_are_a_request_until_the_job_is_over() -> None:
    waiting_job = job_with("<Processors>4</Processors>").job
    assert waiting_job.requested is not None and waiting_job.delivered is None
    finished_job = job_with("<Processors>4</Processors>", "Completed").job
    assert finished_job.delivered is not None and finished_job.requested is None
    assert job_with("<Processors>4</Processors>", "Running").job.requested is not None


def test_a_block_takes_precedence_over_bare_resources() -> None:
    whole = job_with(
        "<Processors>4</Processors><Memory units='MB'>5</Memory><Requested><Processors>8</Processors></Requested>"
    )
    assert whole.job.requested is not None
    assert [(row.name, row.value) for row in whole.job.requested.properties] == [("Processors", 8), ("Memory", 5)]
    assert whole.notes == ("Processors both bare and in a block: the block counts",)


def test_inconsistent_times_are_reported() -> None:
    inconsistent = job_with(
        "<SubmissionTime>50</SubmissionTime><StartTime>40</StartTime><EndTime>200</EndTime>"
        "<EligibleTime>9</EligibleTime><DeadlineTime>8</DeadlineTime><Delivered><WallDuration>99</WallDuration></Delivered>"
    )
    assert remarks_on(inconsistent) == (
        "times out of order: SubmissionTime is 10 s later than StartTime",
        "times out of order: EligibleTime is later than DeadlineTime",
        "delivered WallDuration 99 s, but 160 s from StartTime to EndTime",
    )
    consistent = job_with(
        "<StartTime>40</StartTime><EndTime>200</EndTime><Delivered><WallDuration>100</WallDuration></Delivered>"
    )
    assert remarks_on(consistent) == ()
