"""The fences around pilots, tested with harmless programs before any pilot is started."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

from tests.docs.source_tree import ROOT
from tests.real_pilot.launcher import NAMESPACE, PROGRAM, NoNamespace, PilotLauncher

STAND_IN = """
import os, pathlib, sys
processes = [name for name in os.listdir("/proc") if name.isdigit()]
pathlib.Path("seen").write_text(f"{os.getpid()} {len(processes)} {os.environ.get('PILOT_NOKILL')} {sys.argv[1]}")
"""


@pytest.fixture
def stand_in(tmp_path: Path) -> Path:
    """A folder with a program in place of the pilot, which only records what it sees."""
    (tmp_path / PROGRAM).write_text(STAND_IN, encoding="utf-8")
    return tmp_path


def test_a_pilot_sees_only_its_own_process(stand_in: Path) -> None:
    launcher = PilotLauncher(Path(sys.executable), stand_in)
    with launcher.running(["-x"], {}, stand_in) as process:
        assert process.wait(60) == 0, (stand_in / "pilot.out").read_text()
    assert (stand_in / "seen").read_text() == "1 1 1 -x"
    assert os.getpid() != 1


def test_pilot_nokill_is_always_set(stand_in: Path) -> None:
    launcher = PilotLauncher(Path(sys.executable), stand_in)
    with launcher.running(["-x"], {"PILOT_NOKILL": ""}, stand_in) as process:
        assert process.wait(60) == 0
    assert (stand_in / "seen").read_text().split()[2] == "1"


@pytest.mark.parametrize(
    ("namespace", "message"),
    [
        (("no-such-unshare",), "is not installed"),
        (("false",), "no PID namespace"),
        (("env",), "no PID namespace"),
        (("setsid", "-w"), "no PID namespace"),
        (("unshare", "--mount"), "no PID namespace"),
        (("unshare", "--pid", "--fork"), "no PID namespace"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_without_a_namespace_nothing_is_started(stand_in: Path, namespace: tuple[str, ...], message: str) -> None:
    launcher = PilotLauncher(Path(sys.executable), stand_in, namespace)
    with (
        pytest.raises(NoNamespace, match=f"{message}.*no pilot was started"),
        launcher.running(["-x"], {}, stand_in),
    ):
        pass
    assert not (stand_in / "seen").exists()


def test_nothing_else_in_the_tests_starts_pilots() -> None:
    here = Path(__file__).parent
    # the plain pilot of the examples, plain_pilot.py, sends no signals
    program = re.compile(rf"(?<!\w){re.escape(PROGRAM)}")
    files_with_program = [
        path for path in (ROOT / "tests").rglob("*.py") if program.search(path.read_text(encoding="utf-8"))
    ]
    assert files_with_program == [here / "launcher.py"]
    files_with_popen = [
        path.name for path in here.glob("*.py") if "subprocess." + "Popen(" in path.read_text(encoding="utf-8")
    ]
    assert sorted(files_with_popen) == ["installation.py", "launcher.py"]
    assert NAMESPACE[:4] == ("unshare", "--pid", "--fork", "--mount-proc")
