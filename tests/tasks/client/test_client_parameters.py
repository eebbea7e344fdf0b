"""How parameters written by prun are adapted, how filters of pbook are read, and a container input with a secondary."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, cast

import pytest

from agents.feeds.rucio_connection import Rucio
from agents.tasks.input_sources import InputSources
from broker.store.connection.database import Database
from broker.tasks.answers.task_submission import task_submission
from broker.tasks.model.client_filters import percent, read_filter, super_status
from broker.tasks.model.client_parameters import ClientTask, SameName, adapted, check_same_name
from broker.tasks.model.refine import Submitter, refine
from broker.tasks.model.values import BadParameter
from broker.tasks.model.verbs import ENDED, STATES
from tests.tasks.client.calls import prun

ADDRESS = "https://broker.example.org:8642"
NOW = datetime(2026, 8, 1, 12, tzinfo=UTC)


def adapt(parameters: dict[str, Any], vo: str = "atlas", **options: Any) -> Any:
    return adapted(ClientTask(parameters, "ada", ADDRESS, **options), vo)


def test_empty_parameters_are_dropped() -> None:
    parameters = {"site": None, "transUses": "", "excludedSite": [], "new": {}, "nFiles": 0, "skipScout": False}
    assert adapt(parameters).parameters == {
        "nFiles": 0, "skipScout": False, "sourceURL": ADDRESS, "transPath": f"{ADDRESS}/trf/user/runGen",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("sent_vo", "own_vo", "expected_vo", "is_noted"),
    [("atlas", "myexp", "myexp", True), ("atlas", "atlas", "atlas", False), ("other", "myexp", "other", False)],
)
def test_the_vo_of_the_installation_replaces_the_default_of_prun(
    sent_vo: str, own_vo: str, expected_vo: str, is_noted: bool
) -> None:
    task = adapt({"vo": sent_vo}, own_vo)
    assert (task.parameters["vo"], bool(task.notes)) == (expected_vo, is_noted)


@pytest.mark.parametrize(
    ("parameters", "configured", "expected"),
    [
        ({}, None, f"{ADDRESS}/trf/user/runGen"),
        ({"sourceURL": "http://proxy:1"}, None, "http://proxy:1/trf/user/runGen"),
        ({}, "/cvmfs/trf/runGen", "/cvmfs/trf/runGen"),
        ({"transPath": "/own"}, "/cvmfs/trf/runGen", "/own"),
    ],
)
def test_path_of_the_transformation(parameters: dict[str, Any], configured: str | None, expected: str) -> None:
    assert adapt(parameters, transformation=configured).parameters["transPath"] == expected


def test_a_parent_and_datasets_that_are_not_expanded() -> None:
    item = {
        "type": "template",
        "param_type": "input",
        "dataset": "mc:a",
        "value": "${IN}",
        "consolidate": "user.ada.x/",
    }
    parameters = adapt({"jobParameters": [item, "text"]}, parent=10_000_001).parameters
    assert parameters["parent_tid"] == 10_000_001
    assert parameters["jobParameters"] == [{key: value for key, value in item.items() if key != "consolidate"}, "text"]
    assert "consolidate" in item, "what was sent stays as it is"


def test_parameters_of_prun_without_effect_are_noted_once() -> None:
    task = refine(adapt(prun()).parameters, Submitter("ada", may_ask_for_one_name=True))
    (note,) = [text for text in task.notes if text.startswith("without effect")]
    for name in ("cliParams", "osInfo", "respectSplitRule"):
        assert note.count(name) == 1
    assert "uniqueTaskName" not in note
    assert task.columns["username"] == "ada" and task.columns["splitrule"] == "MF=200,NF=1"


@pytest.mark.parametrize("status", STATES)
def test_a_name_is_free_again_after_a_task_without_output(status: str) -> None:
    if status in ("failed", "aborted", "broken"):
        check_same_name("user.ada.t1/", 5, status)
        return
    with pytest.raises(SameName, match="jediTaskID=5") as refused:
        check_same_name("user.ada.t1/", 5, status)
    assert ("has ended" in str(refused.value)) == (status in ENDED)


@pytest.mark.parametrize("status", STATES)
def test_every_state_maps_to_a_super_status_of_pbook(status: str) -> None:
    active = ("running", "submitting", "registered", "ready")
    assert super_status(status) == status if status in ENDED else super_status(status) in active


def test_a_filter_with_a_time_in_another_zone() -> None:
    task_filter = read_filter("ada", "2026-08-01T14:00:00+02:00", '{"status": "done", "superStatus": "done"}', 5)
    assert (task_filter.since, task_filter.statuses, task_filter.user) == (datetime(2026, 8, 1, 12), ("done",), "ada")  # noqa: DTZ001
    assert read_filter("ada", None, None, 5).statuses is None


@pytest.mark.parametrize(
    ("part", "whole", "expected"), [(0, 0, 0), (None, None, 0), (1, 3, 33), (999, 1000, 99), (3, 3, 100)]
)
def test_percent(part: int | None, whole: int | None, expected: int) -> None:
    assert percent(part, whole) == expected


class Catalogue:
    """A catalogue with one container of ``datasets`` datasets; each dataset has two files."""

    def __init__(self, datasets: int) -> None:
        self.datasets = datasets

    def metadata(self, did: tuple[str, str]) -> dict[str, Any]:
        return {"did_type": "CONTAINER" if did[1] == "box" else "DATASET", "is_open": False}

    def contents(self, did: tuple[str, str]) -> list[dict[str, str]]:
        return [{"scope": "mc", "name": f"part{number}"} for number in range(self.datasets)]

    def files(self, did: tuple[str, str]) -> list[dict[str, Any]]:
        return [{"scope": "mc", "name": f"{did[1]}.{number}", "bytes": 5} for number in range(2)]


@pytest.mark.parametrize(("datasets", "is_accepted"), [(1, True), (2, False)])
def test_a_secondary_needs_a_container_of_one_dataset(database: Database, datasets: int, is_accepted: bool) -> None:
    master = {"type": "template", "param_type": "input", "dataset": "mc:box", "value": '-i "${IN/T}"', "expand": True}
    secondary = {"type": "template", "param_type": "input", "dataset": "mc:more", "value": "${IN2}", "hidden": True}
    parameters = prun(noInput=None, nEvents=None, nEventsPerJob=None, nFilesPerJob=1)
    parameters["jobParameters"] = [
        *parameters["jobParameters"],
        master,
        {**secondary, "nFilesPerJob": 1, "expand": True},
    ]
    sources = InputSources(lambda: cast(Rucio, Catalogue(datasets)))
    submission = task_submission(adapt(parameters).parameters, Submitter("ada"), sources=sources)
    if is_accepted:
        assert submission.make(database, NOW).jobs == 2
        return
    with pytest.raises(BadParameter, match="a secondary goes with one primary dataset"):
        submission.make(database, NOW)
