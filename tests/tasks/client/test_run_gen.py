"""The transformation script of prun's tasks, run as a pilot runs it: in the job's work directory, through a shell."""

from __future__ import annotations

import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import pytest

from broker.tasks.routes import run_gen
from tests.fetching.web_server import says, serving
from tests.tasks.client.calls import sandbox_name
from tests.tasks.client.conftest import archive

Run = Callable[..., tuple[int, str]]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """A function that runs the script with the options of job parameters and returns its exit status and output."""
    (tmp_path / "runGen").write_text(Path(run_gen.__file__).read_text(encoding="utf-8"), encoding="utf-8")

    def run_through_a_shell(options: str, command: str | None = None) -> tuple[int, str]:
        command_option = "" if command is None else f'-p "{quote(command)}"'
        line = f'"{sys.executable}" ./runGen -j "" -r . {options} {command_option}'
        process = subprocess.run(line, shell=True, cwd=tmp_path, capture_output=True, text=True, check=False)  # noqa: S602
        return process.returncode, process.stdout + process.stderr

    return run_through_a_shell


def test_a_command_reads_its_input_and_its_output_has_its_name_on_the_grid(run: Run, tmp_path: Path) -> None:
    for name in ("a.root", "b.root"):
        (tmp_path / name).write_text(name, encoding="utf-8")
    options = "-i \"['a.root', 'b.root']\" -o \"{'out.txt': 'user.ada.1._000001.out.txt'}\""
    status, output = run(options, "echo %IN > out.txt; cat a.root b.root >> out.txt")
    assert status == 0, output
    assert (tmp_path / "user.ada.1._000001.out.txt").read_text() == "a.root,b.root\na.rootb.root"
    assert sorted(file.name for file in tmp_path.iterdir()) == [
        "a.root",
        "b.root",
        "runGen",
        "user.ada.1._000001.out.txt",
    ]


def test_several_input_streams(run: Run, tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        (tmp_path / name).touch()
    in_map = "--inMap \"{'IN': ['a'], 'IN2': ['b', 'c']}\" --writeInputToTxt IN2:in2.txt"
    status, output = run(f"-i \"['a']\" {in_map} -o \"{{'o': 'O'}}\"", "(echo %IN %IN2; cat in2.txt) > o")
    assert status == 0, output
    assert (tmp_path / "O").read_text() == "a b,c\nb\nc\n"


def test_the_archive_is_fetched_again_after_server_errors(run: Run, tmp_path: Path) -> None:
    content, name = archive(b'#!/bin/sh\necho "it says $1"\n'), sandbox_name()
    with serving(says(200, content)) as server:
        source = server.address("").rstrip("/")
        status, output = run(f"--sourceURL {source} -a {name} -o \"{{'o': 'O'}}\"", "./run.sh 'a \"word\" > $HOME' > o")
        assert status == 0, output
    assert (tmp_path / "O").read_text() == 'it says a "word" > $HOME\n'
    pauses: list[float] = []
    with serving(says(503), says(429), says(200, content)) as server:
        run_gen.fetch(server.address("").rstrip("/"), name, str(tmp_path / "fetched"), pauses.append)
    assert (tmp_path / "fetched").read_bytes() == content and pauses == [5, 10]
    with serving(says(503)) as server, pytest.raises(run_gen.Failed) as failed:
        run_gen.fetch(server.address("").rstrip("/"), name, str(tmp_path / "fetched"), pauses.append)
    assert failed.value.status == 40


def test_the_run_directory_is_within_the_archive(run: Run, tmp_path: Path) -> None:
    with serving(says(200, archive())) as server:
        options = f"--sourceURL {server.address('').rstrip('/')} -a {sandbox_name()}"
        status, output = run(f"{options} -r sub/deep -o \"{{'o': 'O'}}\"", "cat ../../run.sh > o")
        assert status == 0, output
        assert run(f"{options} -r ..", "true")[0] == 2


def test_many_outputs_are_packed_and_one_may_be_missing(run: Run, tmp_path: Path) -> None:
    status, output = run("-o \"{'*.dat': 'all.tgz', 'log': 'L'}\" --allowNoOutput=L", "touch b.dat a.dat")
    assert status == 0, output
    with tarfile.open(tmp_path / "all.tgz") as tar:
        assert tar.getnames() == ["a.dat", "b.dat"]
    status, output = run("-o \"{'*.dat': 'none.tgz'}\"", "touch a.txt")
    assert status == 43 and "output *.dat was not written; in the run directory are: a.txt" in output


def test_the_command_may_write_grid_names_itself(run: Run, tmp_path: Path) -> None:
    status, output = run("-o \"{'out.txt': 'grid.txt'}\" --execWithRealFileNames", "echo x > out.txt")
    assert status == 0, output
    assert (tmp_path / "grid.txt").read_text() == "x\n"


@pytest.mark.parametrize(
    ("options", "command", "status", "message"),
    [
        ("", "exit 7", 7, "the command ended with exit status 7"),
        ("", "kill -9 $$", 137, "137"),
        ("", "no-such-command", 127, "127"),
        ("", None, 2, "there is no command"),
        ("-o \"{'out.txt': 'O'}\"", "true", 43, "output out.txt was not written"),
        ("-o \"['out.txt']\"", "true", 2, "-o is no dict"),
        ("-o \"__import__('os').abort()\"", "true", 2, "-o is no dict"),
        ("-i \"('a'\"", "true", 2, "-i is no list"),
        ("-i \"['a']\"", "true", 42, "input file a is not in"),
        ("--useAthenaPackages", "true", 2, "unrecognized arguments: --useAthenaPackages"),
        ("--writeInputToTxt IN", "true", 2, "--writeInputToTxt IN"),
        ("-a jobO.x.tar.gz", "true", 2, "needs --sourceURL"),
        ("-a ../x --sourceURL http://127.0.0.1:1", "true", 2, "plain name"),
        ("-l lib.tgz", "true", 41, "cannot be unpacked"),
    ],
)
def test_a_failure_states_its_cause(run: Run, options: str, command: str | None, status: int, message: str) -> None:
    exit_status, output = run(options, command)
    assert (exit_status, message in output) == (status, True), output


def test_no_archive_member_is_unpacked_outside_the_work_directory(run: Run, tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "lib.tgz", "w:gz") as tar:
        tar.add(tmp_path / "runGen", "../../escaped")
    status, output = run("-l lib.tgz", "true")
    assert status == 41 and "would land outside" in output
    assert not (tmp_path.parent / "escaped").exists()


@pytest.mark.parametrize("status", [404, 410])
def test_a_missing_archive_is_requested_only_once(run: Run, status: int) -> None:
    with serving(says(status)) as server:
        exit_status, output = run(f"--sourceURL {server.address('').rstrip('/')} -a {sandbox_name()}", "true")
        assert exit_status == 40 and output.count("try ") == 1 and len(server.asked) == 1
