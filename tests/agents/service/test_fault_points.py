from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from agents.service import fault_points
from agents.service.fault_points import FaultSpecificationError, InjectedFaultError, arm, arm_action, reach


def test_nothing_happens_unless_armed() -> None:
    arm({})
    for point in fault_points.POINTS:
        reach(point)


def test_a_fault_fires_once_at_its_point_and_leaves_a_marker(tmp_path: Path) -> None:
    arm({"BROKER_FAULT": "before_write:raise", "BROKER_FAULT_MARKERS": str(tmp_path)})
    reach("before_snapshot")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(InjectedFaultError, match="before_write"):
        reach("before_write")
    assert [file.name for file in tmp_path.iterdir()] == ["before_write"]
    reach("before_write")


def test_several_faults_can_be_armed(tmp_path: Path) -> None:
    go = tmp_path / "go"
    go.touch()
    arm({"BROKER_FAULT": f"before_write:raise, after_commit:pause:{go}", "BROKER_FAULT_MARKERS": str(tmp_path)})
    reach("after_commit")
    assert (tmp_path / "after_commit").exists()
    with pytest.raises(InjectedFaultError):
        reach("before_write")


@pytest.mark.parametrize(("action", "number"), [("kill", signal.SIGKILL), ("stop", signal.SIGSTOP)])
def test_kill_and_stop_are_real_signals(tmp_path: Path, action: str, number: signal.Signals) -> None:
    code = (
        "import os; from agents.service import fault_points as f; "
        "f.arm(os.environ); f.reach('after_snapshot'); print('on')"
    )
    environment = {
        **os.environ,
        "BROKER_FAULT": f"after_snapshot:{action}",
        "BROKER_FAULT_MARKERS": str(tmp_path),
        "PYTHONPATH": str(Path(fault_points.__file__).parents[2]),
    }
    process = subprocess.Popen([sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, text=True)
    _, status = os.waitpid(process.pid, os.WUNTRACED)
    assert (tmp_path / "after_snapshot").exists()
    if os.WIFSTOPPED(status):
        assert os.WSTOPSIG(status) == number == signal.SIGSTOP
        process.send_signal(signal.SIGCONT)
        _, status = os.waitpid(process.pid, 0)
        assert os.WEXITSTATUS(status) == 0
    else:
        assert os.WTERMSIG(status) == number
    process.returncode = 0
    assert process.stdout is not None
    assert process.stdout.read() == ("on\n" if action == "stop" else "")
    process.stdout.close()


@pytest.mark.parametrize(
    "text", ["nowhere:kill", "before_write", "before_write:explode", "before_write:pause", "before_write:kill:x", ":"]
)
def test_invalid_specifications_are_refused(text: str) -> None:
    with pytest.raises(FaultSpecificationError):
        arm({"BROKER_FAULT": text})


def test_only_known_points_take_an_action() -> None:
    with pytest.raises(FaultSpecificationError, match="nowhere"):
        arm_action("nowhere", lambda: None)
