"""People with the real panda-client submit, look, kill, finish, retry; their jobs run the served transformation."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.api.issuer import Issuer
from tests.panda_client.experiment import Experiment
from tests.panda_client.user import User
from tests.real_pilot.installation import until


def contents(experiment: Experiment, pattern: str) -> list[str]:
    """What is in the files of the storage whose names are like that, in the order of their names."""
    return [one.read_text(encoding="utf-8") for one in sorted(experiment.storage.glob(pattern))]


def archives(experiment: Experiment) -> int:
    (row,) = experiment.broker.rows("SELECT count(*) AS number FROM broker.sandboxes")
    return int(row["number"])


def test_a_program_over_a_dataset_of_rucio(experiment: Experiment, ada: User) -> None:
    experiment.add_input("data.one", 4)
    ada.write("run.sh", 'cat $(echo "$1" | tr , " ")', "echo read $1")
    arguments = ("--inDS", "mc:data.one", "--outputs", "out.txt", "--nFilesPerJob", "2")
    task = ada.prun("./run.sh %IN > out.txt", "one", *arguments)
    assert experiment.until_ended(task) == "done"
    names = [f"data.one.{number:03d}.txt" for number in range(4)]
    assert contents(experiment, f"user.ada.{task}._*.out.txt") == [
        f"{a}\n{b}\nread {a},{b}\n" for a, b in (names[:2], names[2:])
    ]

    status, printed = ada.pbook(f"show({task})")
    line = next(one for one in printed.splitlines() if str(task) in one)
    assert status == 0 and line.split() == [str(task), str(task), "done", "100%", "user.ada.one/"]
    _, printed = ada.pbook("showl()")
    assert "4|0|4" in printed, "files done, failed, in all"

    client = experiment.rucio.client()

    def registered() -> list[str] | None:
        found = list(client.list_files("user.ada", "user.ada.one_out.txt"))
        return sorted(row["name"] for row in found) if len(found) == 2 else None

    listed = until(registered, 60, lambda: experiment.broker.broker("outputs", "list"))
    assert listed == [f"user.ada.{task}._{number:06d}.out.txt" for number in (1, 2)]

    before = archives(experiment)
    again = ada.prun("./run.sh %IN > out.txt", "again", *arguments)
    assert again > task and archives(experiment) == before, "the same directory is not uploaded again"
    status, printed = ada.run("prun", "--exec", "true", "--outDS", "user.ada.one", "--noBuild")
    assert status != 0 and f"jediTaskID={task} has ended (done)" in printed
    assert ada.pbook(f"kill({again})")[0] == 0


def test_two_datasets_and_random_numbers(experiment: Experiment, ada: User) -> None:
    experiment.add_input("data.first", 2)
    experiment.add_input("mc.second", 2)
    ada.write("run.sh", "echo $*")
    secondary = ("--secondaryDSs", "IN2:1:mc.second", "--inDS", "mc:data.first", "--nFilesPerJob", "1")
    task = ada.prun("./run.sh %IN %IN2 %RNDM:100 > out.txt", "two", "--outputs", "out.txt", *secondary)
    assert experiment.until_ended(task) == "done"
    found = contents(experiment, f"user.ada.{task}._*.out.txt")
    assert [line.split()[0] for line in found] == ["data.first.000.txt", "data.first.001.txt"]
    assert sorted(line.split()[1] for line in found) == ["mc.second.000.txt", "mc.second.001.txt"]
    assert sorted(int(line.split()[2]) for line in found) == [101, 102]


def test_a_task_without_input_is_killed_and_retried(
    experiment: Experiment, ada: User, user: Callable[[str], User]
) -> None:
    ada.write("run.sh", "echo hello")
    task = ada.prun("./run.sh > out.txt", "kill", "--outputs", "out.txt", "--nJobs", "3")
    experiment.until_jobs_wait(task, 3)
    bob = user("bob")
    bob.write("run.sh")
    status, printed = bob.pbook(f"kill({task})")
    assert status != 0 and f"task {task} is not yours" in printed
    status, printed = ada.pbook(f"kill({task})")
    assert status == 0 and "3 jobs ended" in printed, printed
    assert experiment.status(task) == "aborted"
    status, printed = ada.pbook(f"kill({task})")
    assert status != 0 and f"task {task} is aborted" in printed
    status, printed = ada.pbook(f"retry({task})")
    assert status == 0 and "retry of" in printed, printed
    assert experiment.until_ended(task) == "done"
    assert contents(experiment, f"user.ada.{task}._*.out.txt") == ["hello\n"] * 3


def test_a_payload_that_fails_is_retried_with_other_options(experiment: Experiment, ada: User) -> None:
    ada.write("run.sh", 'echo hello; [ "$1" -gt 1 ]')
    arguments = ("--outputs", "out.txt", "--nJobs", "2", "--maxAttempt", "1")
    task = ada.prun("./run.sh %RNDM:0 > out.txt", "fails", *arguments)
    assert experiment.until_ended(task) == "finished", "one of two failed"
    (failed,) = [job for job in experiment.broker.jobs(task) if job["jobstatus"] == "failed"]
    assert failed["transexitcode"] == "1"
    status, printed = ada.pbook(f"retry({task}, newOpts={{'memory': 2500}})")
    assert status == 0 and "1 files get new attempts" in printed, printed
    query = "SELECT ramcount FROM doma_panda.jedi_tasks WHERE jeditaskid = :task"
    assert experiment.broker.rows(query, task=task) == [{"ramcount": 2500}]
    status, printed = ada.pbook(f"finish({task})")
    assert status == 0, printed
    assert experiment.until_ended(task) == "finished"


@pytest.mark.parametrize("is_soft", [True, False])
def test_a_task_is_finished(experiment: Experiment, ada: User, is_soft: bool) -> None:
    ada.write("run.sh", "echo hello")
    task = ada.prun("./run.sh > out.txt", f"finish{is_soft}", "--outputs", "out.txt", "--nJobs", "2")
    experiment.until_jobs_wait(task, 2)
    status, printed = ada.pbook(f"finish({task}, soft={is_soft})")
    assert status == 0 and f"finish of jediTaskID={task} is done" in printed, printed
    assert experiment.until_ended(task) == ("done" if is_soft else "failed")


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ((), "buildSpec"),
        (("--noBuild", "--mergeOutput"), "mergeSpec"),
        (("--noBuild", "--site", "NOWHERE"), "NOWHERE"),
        (("--noBuild", "--nGBPerJob", "0"), "nGBPerJob"),
        (("--noBuild", "--inDS", "mc:nothing"), "there is no such dataset"),
    ],
)
def test_what_is_not_done_is_said(experiment: Experiment, ada: User, arguments: tuple[str, ...], word: str) -> None:
    ada.write("run.sh", "echo hello")
    about = ("--exec", "./run.sh > out.txt", "--outDS", "user.ada.refused", "--outputs", "out.txt")
    status, printed = ada.run("prun", *about, *arguments)
    assert status != 0 and word in printed, printed


def test_without_a_token_the_client_sends_its_user_to_log_in(
    experiment: Experiment, ada: User, issuer: Issuer, tmp_path: Path
) -> None:
    issuer.token_of_device, ada.token = ada.token, ""
    ada.write("run.sh", "echo hello")
    (ada.folder / ".pathena").mkdir()
    arguments = ("--exec", "./run.sh > out.txt", "--outDS", "user.ada.login", "--outputs", "out.txt", "--noBuild")
    status, printed = ada.run("prun", *arguments, said="y\n")
    assert status == 0 and f"Please go to {issuer.url}/login" in printed and "jediTaskID=" in printed, printed
    status, printed = ada.pbook("show('run')")
    assert status == 0 and "user.ada.login/" in printed, "the token is kept"


def test_a_bad_token_is_refused(experiment: Experiment, ada: User) -> None:
    ada.write("run.sh", "echo hello")
    ada.token = ada.token[:-6] + "AAAAAA"
    about = ("--exec", "./run.sh > out.txt", "--outDS", "user.ada.bad", "--outputs", "out.txt", "--noBuild")
    status, printed = ada.run("prun", *about)
    assert status != 0 and "unauthenticated" in printed
