"""The loop is loaded where it pays and compiled by another process; cycles go on without it if it cannot be."""

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
    """Stands in for the process that compiles."""

    def __init__(self, command: list[str], **options: Any) -> None:
        self.command, self.code = command, None

    def kill(self) -> None:
        self.code = -9

    def poll(self) -> int | None:
        return self.code


class Loop:
    """Stands in for a module with a loop, whose functions can be read unless there is damage."""

    damage: Exception | None = None

    def call_first(self) -> None:
        if self.damage is not None:
            raise self.damage


@pytest.fixture
def cache_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """The folder for compiled functions, not made yet, of a process that has decided nothing."""
    monkeypatch.setattr(loading, "mode", "where it pays")
    monkeypatch.setattr(loading, "_seen", 0)
    monkeypatch.setattr(loading, "_failed", 0)
    monkeypatch.setattr(loading, "_has_logged_hint", False)
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


def test_the_loop_is_loaded_where_it_pays(cache_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache_folder.mkdir(mode=0o700)
    function_cache.ready_file(cache_folder).touch()
    assert [loading.load_compiled_loop(chunks) is not None for chunks in (900, 1_000, 100, 1)] == [
        False,
        False,
        True,
        True,
    ]
    assert background._compilation().process is None
    monkeypatch.setattr(loading.importlib.util, "find_spec", lambda name: None)
    assert loading.load_compiled_loop(5_000) is None


def test_without_a_compiler_the_log_names_the_extra_once_and_only_where_it_pays(
    cache_folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(loading.importlib.util, "find_spec", lambda name: None)
    assert loading.load_compiled_loop(loading.CHUNKS_THAT_PAY - 1) is None
    assert caplog.messages == []
    assert [
        loading.load_compiled_loop(1),
        loading.load_compiled_loop(5_000),
        loading.load_compiled_task_loop(50_000),
    ] == [None, None, None]
    (message,) = caplog.messages
    assert "gridbroker[fast]" in message


def test_cycles_go_on_in_python_until_another_process_has_compiled_the_loop(cache_folder: Path) -> None:
    assert loading.load_compiled_loop(3_000) is None
    process = background._compilation().process
    assert loading.load_compiled_loop(3_000) is None
    assert isinstance(process, Compiler)
    assert background._compilation().process is process
    assert process.command == [sys.executable, "-m", "broker.compilation.warm_up", str(cache_folder)]
    process.code = 0  # the process ends between two cycles
    function_cache.ready_file(cache_folder).touch()
    assert loading.load_compiled_loop(3_000) is not None


def test_cycles_go_on_without_a_loop_that_cannot_be_compiled(
    cache_folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    loading.load_compiled_loop(3_000)
    process = background._compilation().process
    assert isinstance(process, Compiler)
    process.code = 1
    with caplog.at_level(logging.WARNING):
        assert [loading.load_compiled_loop(3_000) for _ in range(3)] == [None, None, None]
    (message,) = caplog.messages
    assert "exit code 1" in message
    assert str(cache_folder / "warm_up.log") in message
    assert background._compilation().process is process


def test_a_process_waits_for_the_compiler_only_if_it_asks_to(
    cache_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loading, "mode", "always")
    assert loading.load_compiled_loop(1) is not None, "the process itself compiles"
    assert background._compilation().process is None
    monkeypatch.setattr(loading, "mode", "where it pays")
    monkeypatch.setattr(loading, "_read_modules", {})
    assert loading.load_compiled_loop(3_000) is None
    assert background._compilation().process is not None, "another process compiles"


def test_each_compiler_has_its_own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
    exit_calls: list[Any] = []
    monkeypatch.setattr(function_cache.atexit, "register", lambda *call, **options: exit_calls.append(call))
    replacement = function_cache.folder()
    assert replacement.is_dir()
    assert function_cache.folder() == replacement
    assert exit_calls == [(shutil.rmtree, replacement)]
    replacement.rmdir()


@pytest.mark.slow
def test_the_process_that_compiles_marks_the_folder_as_ready(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("numba", reason="there is no compiler here")
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")  # without compiling: another test covers that
    subprocess.run([sys.executable, "-m", compilation._MODULE, str(tmp_path)], check=True)
    assert function_cache.ready_file(tmp_path).exists()


def test_an_interrupted_attempt_is_compiled_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "functions").mkdir()
    (tmp_path / "functions" / "half.nbi").touch()
    attempts: list[bool] = []

    def compile_all() -> None:
        attempts.append((tmp_path / "functions").exists())
        if attempts[-1]:
            raise EOFError("Ran out of input")

    monkeypatch.setattr(warm_up, "compile_all", compile_all)
    warm_up._compile_into(tmp_path)
    assert attempts == [True, False]
    assert "Ran out of input" in capsys.readouterr().err


@pytest.mark.parametrize(
    "damage", [pickle.UnpicklingError("pickle data was truncated"), EOFError("Ran out of input"), MemoryError()]
)
def test_functions_that_cannot_be_read_are_removed_and_compiled_again(
    cache_folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, damage: Exception
) -> None:
    cache_folder.mkdir(mode=0o700)
    function_cache.ready_file(cache_folder).touch()
    monkeypatch.setattr(Loop, "damage", damage)
    assert loading.load_compiled_loop(3_000) is None
    assert not cache_folder.exists()
    assert [loading.load_compiled_loop(3_000) for _ in range(3)] == [None, None, None]
    process = background._compilation().process
    assert isinstance(process, Compiler)
    process.code = 0
    function_cache.ready_file(cache_folder).touch()
    monkeypatch.setattr(Loop, "damage", None)
    assert loading.load_compiled_loop(3_000) is not None
    (message,) = caplog.messages
    assert str(cache_folder) in message
    assert type(damage).__name__ in message


def test_a_process_that_fails_to_read_the_functions_twice_goes_on_without_them(
    cache_folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(loading, "mode", "always")
    monkeypatch.setattr(Loop, "damage", EOFError())
    assert [loading.load_compiled_loop(3_000) for _ in range(5)] == [None] * 5
    assert ["again" in message for message in caplog.messages] == [True, False]


@pytest.mark.slow
def test_damaged_files_of_the_compiler_fail_no_cycle(compiled_loop: None, tmp_path: Path) -> None:
    pytest.importorskip("numba", reason="there is no compiler here")
    damaged_folder = shutil.copytree(function_cache.folder(), tmp_path / "damaged")
    files = [path for path in damaged_folder.rglob("*.nb?") if path.stat().st_size]
    assert files
    for path in files:
        os.truncate(path, path.stat().st_size // 2)
    process = subprocess.run(
        [sys.executable, "-c", DECIDED_WITH_DAMAGE, str(damaged_folder)],
        check=True,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert process.stdout.split() == ["None", "False", "12"]
    assert process.stderr.count("cannot be read") == 1


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
    assert _is_replaced(shared, monkeypatch)
    assert "XDG_CACHE_HOME" in caplog.text
    shared.chmod(0o700)
    assert not _is_replaced(shared, monkeypatch)


def test_a_folder_that_others_may_exchange_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    above = tmp_path / "above"
    above.mkdir()
    above.chmod(0o777)
    assert _is_replaced(above / "own", monkeypatch)
    above.chmod(0o1777)  # like /tmp: users may only rename their own entries
    assert not _is_replaced(above / "own", monkeypatch)


def test_a_folder_of_another_user_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = tmp_path / "own"
    assert not _is_replaced(own, monkeypatch)
    monkeypatch.setattr(function_cache.os, "geteuid", lambda: os.stat(own).st_uid + 1)
    assert _is_replaced(own, monkeypatch)


def test_a_link_to_a_folder_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    assert _is_replaced(tmp_path / "link", monkeypatch)


def _is_replaced(folder: Path, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether another folder is used instead; that folder is removed again."""
    monkeypatch.setattr(function_cache, "other_folder", folder)
    replacement = function_cache.folder()
    if replacement == folder:
        return False
    replacement.rmdir()
    return True
