"""Query commands as an operator types them, and ``pause`` and ``resume``."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from broker.cli.commands import COMMANDS
from broker.cli.main import main
from broker.store.connection.database import Database
from tests.brokered_demo import BUSY_USER, DRAWN, LOST_INPUT, TOO_MUCH_MEMORY
from tests.cli.commands import Command, runner


@pytest.fixture
def broker(demo: Database, capsys: pytest.CaptureFixture[str]) -> Command:
    return runner(capsys, "--db", demo.url)


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (("tasks", "--reason", "lowmemory"), (str(TOO_MUCH_MEMORY), "43000083")),
        (("reasons", "--rules"), ("9 of 98 chunks and tasks wait", "links_full", "queues rejected")),
        (("queues", "--idle"), ("BEIJING-LCG2\tpaused", "status")),
        (("queue", "show", "bnl"), ("production_job: got", "would come if", "Rejected here by production_job")),
        (("nucleus", "ral-lcg2"), ("RAL-LCG2: nucleus, ACTIVE", "probability")),
        (("nucleus",), ("Nuclei and satellites", "SARA-MATRIX")),
        (("links", "--full", "--limit", "2"), ("NQUEUED_SAT_CAP", "more; --limit")),
        (("shares",), ("Production\t70.0 %", ". MC 23")),
        (
            ("user", BUSY_USER),
            ("Throttled: 225 jobs that run, cap 150", "; decided 2", ", next try 2", "wait for throttled_running_jobs"),
        ),
        (("explain", str(TOO_MUCH_MEMORY)), ("No queue offers enough memory", "\nAsk for less memory")),
        (("explain", str(DRAWN)), ("a weighted random draw among", "\nproduction_job, dataset 61000201, ramcount 0\n")),
        (("explain", str(TOO_MUCH_MEMORY)), ("Nothing in the tuning would help.",)),
        (("history", str(TOO_MUCH_MEMORY)), ("pending lowmemory",)),
        (("why-not", str(TOO_MUCH_MEMORY), "bnl"), ("limit 16,000 MB (queue.maxrss)",)),
        (("alarms",), ("Alarms",)),
        (("agents",), ("production_job", "done")),
    ],
)  # fmt: skip
def test_in_words(broker: Command, command: tuple[str, ...], words: tuple[str, ...]) -> None:
    result = broker(*command)
    assert result.status == 0, result.err
    assert [word for word in words if word not in result.out] == []


@pytest.mark.slow
def test_a_task_waiting_for_its_input_has_no_nearest_queue(broker: Command) -> None:
    result = broker("explain", str(LOST_INPUT))
    assert "no complete replica" in result.out and "Nearest:" not in result.out


@pytest.mark.parametrize(
    ("command", "keys"),
    [
        (("tasks",), {"task", "outcome", "reason", "main_code", "chunks", "jobs"}),
        (("reasons",), {"waiting", "considered", "lines", "rules", "compared_with"}),
        (("queues",), {"queue", "considered", "chosen", "placed", "main_code"}),
        (("links", "--limit", "1"), {"source", "nucleus", "queued_files", "cap_files", "full"}),
        (("shares",), {"gshare", "target_percent", "running_hs06"}),
        (("user", BUSY_USER), {"tasks", "throttles", "caps", "quotas", "advice"}),
        (("nucleus", "CERN-PROD"), {"line", "tasks", "rejected", "links"}),
        (("explain", str(TOO_MUCH_MEMORY), "--no-evaluate"), {"decisions", "task", "now"}),
        (("agents",), {"agent", "last_outcome", "started_at", "finished_at", "pause"}),
    ],
)
def test_json_output(broker: Command, command: tuple[str, ...], keys: set[str]) -> None:
    result = broker(*command, "--json")
    assert result.status == 0, result.err
    assert keys <= set(json.loads(result.out.splitlines()[0]))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "names"),
    [
        (("explain", str(TOO_MUCH_MEMORY), "--no-evaluate"), (b"lowmemory", b"no candidate has a weight")),
        (("explain", str(DRAWN), "--brokerage", "production_task"), (b"RAL-LCG2", b"weights")),
        (("shares",), (b"MC 23", b"target")),
        (("history", str(TOO_MUCH_MEMORY)), (b"pending lowmemory", b"hours since")),
    ],
)
def test_pictures(broker: Command, tmp_path: Path, command: tuple[str, ...], names: tuple[bytes, ...]) -> None:
    file = tmp_path / "picture.svg"
    result = broker(*command, "--plot", str(file))
    assert result.status == 0, result.err
    picture = file.read_bytes()
    assert [name for name in names if name not in picture] == []
    assert broker(*command, "--plot", str(tmp_path / "picture.pdf")).status == 2


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (("queue", "show", "BNLX"), "BNL"),
        (("nucleus", "RAL"), "RAL-LCG2"),
        (("user", "etanaka2"), BUSY_USER),
        (("links", "--nucleus", "SARA-MATRI"), "SARA-MATRIX"),
        (("why-not", str(TOO_MUCH_MEMORY), "BNLX"), "BNL"),
        (("pause", "timeout", "--until", "1h", "--reason", "x"), "timeouts"),
    ],
)
def test_an_unknown_name_exits_with_4_and_suggests_the_nearest(
    broker: Command, command: tuple[str, ...], name: str
) -> None:
    result = broker(*command)
    assert result.status == 4 and name in result.err


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (("tasks", "--status", "pendin"), "there is no status pendin; --status; did you mean pending"),
        (("tasks", "--status", "runing"), "did you mean running"),
        (("tasks", "--reason", "lowmemor"), "there is no reason lowmemor; --reason; did you mean lowmemory"),
        (("tasks", "--gshare", "MC 24"), "did you mean MC 23"),
        (("tasks", "--queue", "BNLX"), "did you mean BNL"),
        (("tasks", "--nucleus", "SARA-MATRI"), "did you mean SARA-MATRIX"),
        (("tasks", "--user", "etanaka2"), BUSY_USER),
        (("queues", "--status", "onlin"), "did you mean online"),
        (("queues", "--site", "BNL-ATLA"), "did you mean BNL-ATLAS"),
        (("reasons", "--brokerage", "production"), "did you mean production_job or production_task"),
    ],
)
def test_an_unknown_filter_value_exits_with_2_and_suggests_the_nearest(
    broker: Command, command: tuple[str, ...], message: str
) -> None:
    result = broker(*command)
    assert (result.status, result.out) == (2, "") and message in result.err


@pytest.mark.parametrize(
    "words",
    [("tasks", "--status", "PENDING"), ("tasks", "--status", "aborted"), ("tasks", "--reason", "unknown_job")],
    ids=lambda words: words[-1],
)
def test_a_filter_with_a_known_value_is_answered(broker: Command, words: tuple[str, ...]) -> None:
    assert broker(*words).status == 0


def test_pause_and_resume(broker: Command) -> None:
    assert broker("pause", "timeouts", "--until", "2h", "--reason", "downtime", "--editor", "ann").status == 0
    try:
        rows = [json.loads(line) for line in broker("agents", "--json").out.splitlines()]
        pause = {row["agent"]: row["pause"] for row in rows}["timeouts"]
        assert (pause["editor"], pause["reason"]) == ("ann", "downtime")
        refusal = broker("run", "timeouts")
        assert refusal.status == 3 and "timeouts is paused until" in refusal.err and "broker resume" in refusal.err
        assert broker("run", "timeouts", "--dry-run").status == 0
        assert "timeouts is paused by ann: downtime" in broker("alarms").out
    finally:
        resumption = broker("resume", "timeouts", "--json")
    assert resumption.document == {"agent": "timeouts", "resumed": True, "still_paused_by": []}
    assert broker("resume", "timeouts").status == 3


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (("all", "--until", "now", "--reason", "x"), 2),
        (("all", "--until", "2020-01-01", "--reason", "x"), 3),
        (("all", "--until", "1h", "--reason", " "), 2),
        (("all", "--until", "soon", "--reason", "x"), 2),
        (("all", "--reason", "x"), 2),
    ],
)
def test_invalid_pauses_are_refused(broker: Command, arguments: tuple[str, ...], status: int) -> None:
    assert broker("pause", *arguments).status == status


def test_an_invalid_end_names_the_option_and_valid_lengths(broker: Command) -> None:
    message = broker("pause", "all", "--until", "x", "--reason", "y").err
    assert "; --until; " in message and "30m, 8h" in message and "--at" not in message


def test_the_help_lists_exactly_the_registered_commands(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    listed = re.findall(r"^  ([\w-]+)  +\S", capsys.readouterr().out.partition("\nCommands:\n")[2], re.MULTILINE)
    names = {"tasks", "reasons", "queues", "nucleus", "links", "shares", "user", "alarms", "pause", "resume", "history"}
    assert listed == [name for name, _, _ in COMMANDS] and names <= set(listed)
