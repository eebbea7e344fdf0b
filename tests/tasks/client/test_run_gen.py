"""The transformation of prun's tasks, run as a pilot runs it: in the work directory of a job, through a shell."""

from __future__ import annotations

import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import pytest

from broker.tasks.routes import run_gen
from tests.feeds.web_server import says, serving
from tests.tasks.client.calls import sandbox_name
from tests.tasks.client.conftest import archive

Run = Callable[..., tuple[int, str]]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Runs it with options as they stand in job parameters; its exit status, and what it says."""
    (tmp_path / "runGen").write_text(Path(run_gen.__file__).read_text(encoding="utf-8"), encoding="utf-8")

    def through_a_shell(options: str, command: str | None = None) -> tuple[int, str]:
        said = "" if command is None else f'-p "{quote(command)}"'
        line = f'"{sys.executable}" ./runGen -j "" -r . {options} {said}'
        done = subprocess.run(line, shell=True, cwd=tmp_path, capture_output=True, text=True, check=False)  # noqa: S602
        return done.returncode, done.stdout + done.stderr

    return through_a_shell


def test_a_command_reads_its_input_and_its_output_has_its_name_on_the_grid(run: Run, tmp_path: Path) -> None:
    for name in ("a.root", "b.root"):
        (tmp_path / name).write_text(name, encoding="utf-8")
    options = "-i \"['a.root', 'b.root']\" -o \"{'out.txt': 'user.ada.1._000001.out.txt'}\""
    status, said = run(options, "echo %IN > out.txt; cat a.root b.root >> out.txt")
    assert status == 0, said
    assert (tmp_path / "user.ada.1._000001.out.txt").read_text() == "a.root,b.root\na.rootb.root"
    assert sorted(one.name for one in tmp_path.iterdir()) == [
        "a.root",
        "b.root",
        "runGen",
        "user.ada.1._000001.out.txt",
    ]


def test_several_streams(run: Run, tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        (tmp_path / name).touch()
    in_map = "--inMap \"{'IN': ['a'], 'IN2': ['b', 'c']}\" --writeInputToTxt IN2:in2.txt"
    status, said = run(f"-i \"['a']\" {in_map} -o \"{{'o': 'O'}}\"", "(echo %IN %IN2; cat in2.txt) > o")
    assert status == 0, said
    assert (tmp_path / "O").read_text() == "a b,c\nb\nc\n"


def test_the_program_comes_from_the_server_after_errors_of_it(run: Run, tmp_path: Path) -> None:
    content, name = archive(b'#!/bin/sh\necho "it says $1"\n'), sandbox_name()
    with serving(says(200, content)) as server:
        source = server.address("").rstrip("/")
        status, said = run(f"--sourceURL {source} -a {name} -o \"{{'o': 'O'}}\"", "./run.sh 'a \"word\" > $HOME' > o")
        assert status == 0, said
    assert (tmp_path / "O").read_text() == 'it says a "word" > $HOME\n'
    waited: list[float] = []
    with serving(says(503), says(429), says(200, content)) as server:
        run_gen.fetch(server.address("").rstrip("/"), name, str(tmp_path / "fetched"), waited.append)
    assert (tmp_path / "fetched").read_bytes() == content and waited == [5, 10]
    with serving(says(503)) as server, pytest.raises(run_gen.Failed) as failed:
        run_gen.fetch(server.address("").rstrip("/"), name, str(tmp_path / "fetched"), waited.append)
    assert failed.value.status == 40


def test_the_run_directory_is_within_the_archive(run: Run, tmp_path: Path) -> None:
    with serving(says(200, archive())) as server:
        where = f"--sourceURL {server.address('').rstrip('/')} -a {sandbox_name()}"
        status, said = run(f"{where} -r sub/deep -o \"{{'o': 'O'}}\"", "cat ../../run.sh > o")
        assert status == 0, said
        assert run(f"{where} -r ..", "true")[0] == 2


def test_many_outputs_are_packed_and_one_may_be_missing(run: Run, tmp_path: Path) -> None:
    status, said = run("-o \"{'*.dat': 'all.tgz', 'log': 'L'}\" --allowNoOutput=L", "touch b.dat a.dat")
    assert status == 0, said
    with tarfile.open(tmp_path / "all.tgz") as tar:
        assert tar.getnames() == ["a.dat", "b.dat"]
    status, said = run("-o \"{'*.dat': 'none.tgz'}\"", "touch a.txt")
    assert status == 43 and "output *.dat was not written; in the run directory are: a.txt" in said


def test_names_on_the_grid_in_the_command(run: Run, tmp_path: Path) -> None:
    status, said = run("-o \"{'out.txt': 'grid.txt'}\" --execWithRealFileNames", "echo x > out.txt")
    assert status == 0, said
    assert (tmp_path / "grid.txt").read_text() == "x\n"


@pytest.mark.parametrize(
    ("options", "command", "status", "word"),
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
def test_what_fails_says_why(run: Run, options: str, command: str | None, status: int, word: str) -> None:
    found, said = run(options, command)
    assert (found, word in said) == (status, True), said


def test_nothing_of_an_archive_lands_outside(run: Run, tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "lib.tgz", "w:gz") as tar:
        tar.add(tmp_path / "runGen", "../../escaped")
    status, said = run("-l lib.tgz", "true")
    assert status == 41 and "would land outside" in said
    assert not (tmp_path.parent / "escaped").exists()


@pytest.mark.parametrize("status", [404, 410])
def test_an_archive_that_is_gone_is_not_asked_for_again(run: Run, status: int) -> None:
    with serving(says(status)) as server:
        found, said = run(f"--sourceURL {server.address('').rstrip('/')} -a {sandbox_name()}", "true")
        assert found == 40 and said.count("try ") == 1 and len(server.asked) == 1
