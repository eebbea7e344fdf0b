"""Users of the real panda-client submit, list, kill, finish and retry tasks; jobs run the served transformation."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.api.issuer import Issuer
from tests.panda_client.experiment import Experiment
from tests.panda_client.user import User
from tests.real_pilot.installation import until


def contents(experiment: Experiment, pattern: str) -> list[str]:
    """The contents of the files in the storage that match a pattern, sorted by name."""
    return [file.read_text(encoding="utf-8") for file in sorted(experiment.storage.glob(pattern))]


def count_archives(experiment: Experiment) -> int:
    (row,) = experiment.broker.rows("SELECT count(*) AS number FROM broker.sandboxes")
    return int(row["number"])


def test_a_program_runs_over_a_dataset_of_rucio(experiment: Experiment, ada: User) -> None:
    experiment.add_input("data.one", 4)
    ada.write("run.sh", 'cat $(echo "$1" | tr , " ")', "echo read $1")
    arguments = ("--inDS", "mc:data.one", "--outputs", "out.txt", "--nFilesPerJob", "2")
    task = ada.prun("./run.sh %IN > out.txt", "one", *arguments)
    assert experiment.until_ended(task) == "done"
    names = [f"data.one.{number:03d}.txt" for number in range(4)]
    assert contents(experiment, f"user.ada.{task}._*.out.txt") == [
        f"{a}\n{b}\nread {a},{b}\n" for a, b in (names[:2], names[2:])
    ]

    status, output = ada.pbook(f"show({task})")
    line = next(text for text in output.splitlines() if str(task) in text)
    assert status == 0 and line.split() == [str(task), str(task), "done", "100%", "user.ada.one/"]
    _, output = ada.pbook("showl()")
    assert "4|0|4" in output, "files done, failed, in all"

    client = experiment.rucio.client()

    def registered_names() -> list[str] | None:
        files = list(client.list_files("user.ada", "user.ada.one_out.txt"))
        return sorted(row["name"] for row in files) if len(files) == 2 else None

    names_in_rucio = until(registered_names, 60, lambda: experiment.broker.broker("outputs", "list"))
    assert names_in_rucio == [f"user.ada.{task}._{number:06d}.out.txt" for number in (1, 2)]

    before = count_archives(experiment)
    second_task = ada.prun("./run.sh %IN > out.txt", "again", *arguments)
    assert second_task > task and count_archives(experiment) == before, "the same directory is not uploaded again"
    status, output = ada.run("prun", "--exec", "true", "--outDS", "user.ada.one", "--noBuild")
    assert status != 0 and f"jediTaskID={task} has ended (done)" in output
    assert ada.pbook(f"kill({second_task})")[0] == 0


def test_two_datasets_and_random_numbers(experiment: Experiment, ada: User) -> None:
    experiment.add_input("data.first", 2)
    experiment.add_input("mc.second", 2)
    ada.write("run.sh", "echo $*")
    secondary = ("--secondaryDSs", "IN2:1:mc.second", "--inDS", "mc:data.first", "--nFilesPerJob", "1")
    task = ada.prun("./run.sh %IN %IN2 %RNDM:100 > out.txt", "two", "--outputs", "out.txt", *secondary)
    assert experiment.until_ended(task) == "done"
    lines = contents(experiment, f"user.ada.{task}._*.out.txt")
    assert [line.split()[0] for line in lines] == ["data.first.000.txt", "data.first.001.txt"]
    assert sorted(line.split()[1] for line in lines) == ["mc.second.000.txt", "mc.second.001.txt"]
    assert sorted(int(line.split()[2]) for line in lines) == [101, 102]


def test_a_task_without_input_is_killed_and_retried(
    experiment: Experiment, ada: User, user: Callable[[str], User]
) -> None:
    ada.write("run.sh", "echo hello")
    task = ada.prun("./run.sh > out.txt", "kill", "--outputs", "out.txt", "--nJobs", "3")
    experiment.until_jobs_wait(task, 3)
    bob = user("bob")
    bob.write("run.sh")
    status, output = bob.pbook(f"kill({task})")
    assert status != 0 and f"task {task} is not yours" in output
    status, output = ada.pbook(f"kill({task})")
    assert status == 0 and "3 jobs ended" in output, output
    assert experiment.status(task) == "aborted"
    status, output = ada.pbook(f"kill({task})")
    assert status != 0 and f"task {task} is aborted" in output
    status, output = ada.pbook(f"retry({task})")
    assert status == 0 and "retry of" in output, output
    assert experiment.until_ended(task) == "done"
    assert contents(experiment, f"user.ada.{task}._*.out.txt") == ["hello\n"] * 3


def test_a_payload_that_fails_is_retried_with_other_options(experiment: Experiment, ada: User) -> None:
    ada.write("run.sh", 'echo hello; [ "$1" -gt 1 ]')
    arguments = ("--outputs", "out.txt", "--nJobs", "2", "--maxAttempt", "1")
    task = ada.prun("./run.sh %RNDM:0 > out.txt", "fails", *arguments)
    assert experiment.until_ended(task) == "finished", "one of two failed"
    (failed_job,) = [job for job in experiment.broker.jobs(task) if job["jobstatus"] == "failed"]
    assert failed_job["transexitcode"] == "1"
    status, output = ada.pbook(f"retry({task}, newOpts={{'memory': 2500}})")
    assert status == 0 and "1 files get new attempts" in output, output
    query = "SELECT ramcount FROM doma_panda.jedi_tasks WHERE jeditaskid = :task"
    assert experiment.broker.rows(query, task=task) == [{"ramcount": 2500}]
    status, output = ada.pbook(f"finish({task})")
    assert status == 0, output
    assert experiment.until_ended(task) == "finished"


@pytest.mark.parametrize("is_soft", [True, False])
def test_a_task_can_be_finished(experiment: Experiment, ada: User, is_soft: bool) -> None:
    ada.write("run.sh", "echo hello")
    task = ada.prun("./run.sh > out.txt", f"finish{is_soft}", "--outputs", "out.txt", "--nJobs", "2")
    experiment.until_jobs_wait(task, 2)
    status, output = ada.pbook(f"finish({task}, soft={is_soft})")
    assert status == 0 and f"finish of jediTaskID={task} is done" in output, output
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
def test_unsupported_options_are_refused_with_a_message(
    experiment: Experiment, ada: User, arguments: tuple[str, ...], word: str
) -> None:
    ada.write("run.sh", "echo hello")
    options = ("--exec", "./run.sh > out.txt", "--outDS", "user.ada.refused", "--outputs", "out.txt")
    status, output = ada.run("prun", *options, *arguments)
    assert status != 0 and word in output, output


def test_without_a_token_the_client_sends_its_user_to_log_in(
    experiment: Experiment, ada: User, issuer: Issuer, tmp_path: Path
) -> None:
    issuer.token_of_device, ada.token = ada.token, ""
    ada.write("run.sh", "echo hello")
    (ada.folder / ".pathena").mkdir()
    arguments = ("--exec", "./run.sh > out.txt", "--outDS", "user.ada.login", "--outputs", "out.txt", "--noBuild")
    status, output = ada.run("prun", *arguments, stdin="y\n")
    assert status == 0 and f"Please go to {issuer.url}/login" in output and "jediTaskID=" in output, output
    status, output = ada.pbook("show('run')")
    assert status == 0 and "user.ada.login/" in output, "the token is kept"


def test_a_bad_token_is_refused(experiment: Experiment, ada: User) -> None:
    ada.write("run.sh", "echo hello")
    ada.token = ada.token[:-6] + "AAAAAA"
    options = ("--exec", "./run.sh > out.txt", "--outDS", "user.ada.bad", "--outputs", "out.txt", "--noBuild")
    status, output = ada.run("prun", *options)
    assert status != 0 and "unauthenticated" in output
