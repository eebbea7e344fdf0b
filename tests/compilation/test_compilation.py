"""The loop is loaded where it pays, compiled by another process, and done without where it cannot be."""

from __future__ import annotations

import gc
import logging
import os
import pickle
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.compilation import background, background as compilation, warm_up
from broker.engine.compiled import function_cache, loading


class Compiler:
    """Stands for the process that compiles."""

    def __init__(self, command: list[str], **options: Any) -> None:
        self.command, self.code = command, None

    def kill(self) -> None:
        self.code = -9

    def poll(self) -> int | None:
        return self.code


class Loop:
    """Stands for a module with a loop, of which the functions can be read or not."""

    damage: Exception | None = None

    def call_first(self) -> None:
        if self.damage is not None:
            raise self.damage


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """The folder for compiled functions of a process that has decided nothing; nothing is in it."""
    monkeypatch.setattr(loading, "mode", "where it pays")
    monkeypatch.setattr(loading, "_seen", 0)
    monkeypatch.setattr(loading, "_failed", 0)
    monkeypatch.setattr(loading, "_told_of_extra", False)
    monkeypatch.setattr(loading, "_read_modules", {})
    monkeypatch.setattr(loading.importlib, "import_module", lambda name: Loop())
    monkeypatch.setattr(gc, "freeze", lambda: None)
    monkeypatch.setattr(loading.importlib.util, "find_spec", lambda name: name)
    monkeypatch.setattr(loading, "is_compiled", loading.is_compiled)
    monkeypatch.setattr(compilation.subprocess, "Popen", Compiler)
    monkeypatch.setattr(function_cache, "other_folder", tmp_path / "kept")
    background._compilation.cache_clear()
    background.install()
    yield tmp_path / "kept"
    background._compilation.cache_clear()


def test_the_loop_is_loaded_where_it_pays(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept.mkdir(mode=0o700)
    function_cache.ready_file(kept).touch()
    assert [loading.loop_for(chunks) is not None for chunks in (900, 1_000, 100, 1)] == [False, False, True, True]
    assert background._compilation().process is None
    monkeypatch.setattr(loading.importlib.util, "find_spec", lambda name: None)
    assert loading.loop_for(5_000) is None


def test_where_there_is_no_compiler_the_log_names_the_extra_once_and_only_where_it_pays(
    kept: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(loading.importlib.util, "find_spec", lambda name: None)
    assert loading.loop_for(loading.CHUNKS_THAT_PAY - 1) is None
    assert caplog.messages == []
    assert [loading.loop_for(1), loading.loop_for(5_000), loading.task_loop_for(50_000)] == [None, None, None]
    (message,) = caplog.messages
    assert "gridbroker[fast]" in message


def test_cycles_go_on_in_python_until_another_process_has_compiled_it(kept: Path) -> None:
    assert loading.loop_for(3_000) is None
    process = background._compilation().process
    assert loading.loop_for(3_000) is None
    assert isinstance(process, Compiler)
    assert background._compilation().process is process
    assert process.command == [sys.executable, "-m", "broker.compilation.warm_up", str(kept)]
    process.code = 0  # it ends between two cycles
    function_cache.ready_file(kept).touch()
    assert loading.loop_for(3_000) is not None


def test_a_loop_that_cannot_be_compiled_is_done_without(kept: Path, caplog: pytest.LogCaptureFixture) -> None:
    loading.loop_for(3_000)
    process = background._compilation().process
    assert isinstance(process, Compiler)
    process.code = 1
    with caplog.at_level(logging.WARNING):
        assert [loading.loop_for(3_000) for _ in range(3)] == [None, None, None]
    (said,) = caplog.messages
    assert "exit code 1" in said
    assert str(kept / "warm_up.log") in said
    assert background._compilation().process is process


def test_a_process_waits_for_the_compiler_only_if_it_asks_to(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "mode", "always")
    assert loading.loop_for(1) is not None
    assert background._compilation().process is None


def test_each_compiler_has_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(function_cache, "_user_cache", lambda: tmp_path)
    before = function_cache.folder()
    monkeypatch.setattr(function_cache, "version", lambda name: "another")
    assert before != function_cache.folder()
    assert before.parent == function_cache.folder().parent


def test_a_folder_that_cannot_be_written_is_replaced_by_one_that_goes_with_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setattr(function_cache, "other_folder", tmp_path / "file" / "kept")
    removed: list[Any] = []
    monkeypatch.setattr(function_cache.atexit, "register", lambda *call, **options: removed.append(call))
    own = function_cache.folder()
    assert own.is_dir()
    assert function_cache.folder() == own
    assert removed == [(shutil.rmtree, own)]
    own.rmdir()


@pytest.mark.slow
def test_the_process_that_compiles_says_in_the_folder_that_all_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("numba", reason="there is no compiler here")
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")  # the functions as they are: compiling is another test's
    subprocess.run([sys.executable, "-m", compilation._MODULE, str(tmp_path)], check=True)
    assert function_cache.ready_file(tmp_path).exists()


def test_an_interrupted_attempt_is_compiled_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "functions").mkdir()
    (tmp_path / "functions" / "half.nbi").touch()
    tried: list[bool] = []

    def compile_all() -> None:
        tried.append((tmp_path / "functions").exists())
        if tried[-1]:
            raise EOFError("Ran out of input")

    monkeypatch.setattr(warm_up, "compile_all", compile_all)
    warm_up._compile_into(tmp_path)
    assert tried == [True, False]
    assert "Ran out of input" in capsys.readouterr().err


@pytest.mark.parametrize(
    "damage", [pickle.UnpicklingError("pickle data was truncated"), EOFError("Ran out of input"), MemoryError()]
)
def test_functions_that_cannot_be_read_are_removed_and_compiled_again(
    kept: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, damage: Exception
) -> None:
    kept.mkdir(mode=0o700)
    function_cache.ready_file(kept).touch()
    monkeypatch.setattr(Loop, "damage", damage)
    assert loading.loop_for(3_000) is None
    assert not kept.exists()
    assert [loading.loop_for(3_000) for _ in range(3)] == [None, None, None]
    process = background._compilation().process
    assert isinstance(process, Compiler)
    process.code = 0
    function_cache.ready_file(kept).touch()
    monkeypatch.setattr(Loop, "damage", None)
    assert loading.loop_for(3_000) is not None
    (said,) = caplog.messages
    assert str(kept) in said
    assert type(damage).__name__ in said


def test_a_process_in_which_nothing_can_be_read_twice_goes_on_without(
    kept: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(loading, "mode", "always")
    monkeypatch.setattr(Loop, "damage", EOFError())
    assert [loading.loop_for(3_000) for _ in range(5)] == [None] * 5
    assert ["again" in one for one in caplog.messages] == [True, False]


@pytest.mark.slow
def test_damaged_files_of_the_compiler_fail_no_cycle(compiled_loop: None, tmp_path: Path) -> None:
    pytest.importorskip("numba", reason="there is no compiler here")
    damaged = shutil.copytree(function_cache.folder(), tmp_path / "damaged")
    files = [path for path in damaged.rglob("*.nb?") if path.stat().st_size]
    assert files
    for path in files:
        os.truncate(path, path.stat().st_size // 2)
    made = subprocess.run(
        [sys.executable, "-c", DECIDED_WITH_DAMAGE, str(damaged)],
        check=True,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert made.stdout.split() == ["None", "False", "12"]
    assert made.stderr.count("cannot be read") == 1


DECIDED_WITH_DAMAGE = """
import logging, sys
from pathlib import Path
from broker.brokerages.job import assign_compiled
from broker.brokerages.job.assign import assign_chunks
from broker.engine.compiled import function_cache, loading
from tests.brokerages.job.random_cycles import random_cycle

logging.basicConfig()
function_cache.other_folder = damaged = Path(sys.argv[1])
loading.CHUNKS_THAT_PAY = 10
cycle, work = random_cycle(7, 12, 5, ())
print(assign_compiled.compiled_cycle(cycle, work, 7), damaged.exists())
loading.mode = "never"
print(len(list(assign_chunks(cycle, work, 7))))
"""


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o755])
def test_a_folder_that_others_may_enter_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, mode: int
) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(mode)
    assert _replaced(shared, monkeypatch)
    assert "XDG_CACHE_HOME" in caplog.text
    shared.chmod(0o700)
    assert not _replaced(shared, monkeypatch)


def test_a_folder_that_others_may_exchange_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    above = tmp_path / "above"
    above.mkdir()
    above.chmod(0o777)
    assert _replaced(above / "own", monkeypatch)
    above.chmod(0o1777)  # as /tmp: others may not rename what is not theirs
    assert not _replaced(above / "own", monkeypatch)


def test_a_folder_of_somebody_else_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = tmp_path / "own"
    assert not _replaced(own, monkeypatch)
    monkeypatch.setattr(function_cache.os, "geteuid", lambda: os.stat(own).st_uid + 1)
    assert _replaced(own, monkeypatch)


def test_a_link_to_a_folder_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    assert _replaced(tmp_path / "link", monkeypatch)


def _replaced(folder: Path, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether another folder is taken instead; it is removed again."""
    monkeypatch.setattr(function_cache, "other_folder", folder)
    taken = function_cache.folder()
    if taken == folder:
        return False
    taken.rmdir()
    return True
