"""``broker match`` as a user runs it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import sqlalchemy as sa

from broker.cli.main import main
from broker.store.connection.database import Database

Command = Callable[..., tuple[object, str, str]]
CPU: dict[str, Any] = {"type": "cpu", "arch": ["x86_64"]}
OPEN: dict[str, Any] = {"containers": ["any"], "cvmfs": ["any"], "cmtconfigs": ["x86_64-el9-gcc13-opt"], "tags": []}
TAG = {"cmtconfig": "", "container_name": "img", "project": "", "release": "", "sources": ["docker://src"], "tag": "t"}
QUEUES: dict[str, tuple[list[str], dict[str, Any] | None]] = {
    "CPU": (["AUTO"], {**OPEN, "architectures": [CPU]}),
    "GPU": (["AUTO"], {**OPEN, "architectures": [CPU, {"type": "gpu", "vendor": ["nvidia"]}]}),
    "DARK": (
        ["AUTO"],
        {**OPEN, "containers": [], "tags": [TAG], "architectures": [CPU, {"type": "gpu", "vendor": ["nvidia"]}]},
    ),
    "ANY": (["ANY"], None),
    "SILENT": (["AUTO"], None),
}


@pytest.fixture
def command(database: Database, capsys: pytest.CaptureFixture[str]) -> Command:
    with database.begin() as connection:
        for name, (releases, tags) in QUEUES.items():
            data = json.dumps({"nickname": name, "type": "production", "cloud": "X", "releases": releases})
            connection.execute(
                sa.text(
                    "INSERT INTO doma_panda.schedconfig_json (panda_queue, data, last_update) VALUES (:n, :d, now())"
                ),
                {"n": name, "d": data},
            )
            if tags is not None:
                connection.execute(
                    sa.text("INSERT INTO doma_panda.sw_tags (panda_queue, data, last_update) VALUES (:n, :d, now())"),
                    {"n": name, "d": json.dumps(tags)},
                )
        connection.execute(
            sa.text(
                "INSERT INTO doma_panda.mv_worker_node_gpu_summary (site, panda_queue, vendor, model, vram,"
                " architecture, framework_version, driver_version)"
                " VALUES ('S', 'GPU', 'NVIDIA', 'Tesla T4', 15360, 'Turing', '12.4', '550.54')"
            )
        )

    def run(*words: str) -> tuple[object, str, str]:
        with pytest.raises(SystemExit) as end:
            main(["--db", database.url, "match", *words])
        captured = capsys.readouterr()
        return end.value.code, captured.out, captured.err

    return run


def document_of(result: tuple[object, str, str]) -> dict[str, Any]:
    status, out, _ = result
    assert status == 0
    (line,) = out.splitlines()
    document: dict[str, Any] = json.loads(line)
    return document


def test_queues_that_accept_or_reject_a_requirement(command: Command) -> None:
    assert document_of(command("#&nvidia : vram >= 15360", "--json")) == {
        "requirement": {"gpu_spec": {"vendor": "nvidia", "vram": ">=15360"}},
        "accepted": ["GPU"],
        "rejected": {"ANY": "hardware_unknown", "CPU": "gpu", "DARK": "gpu_no_monitoring", "SILENT": "not_published"},
    }


@pytest.mark.parametrize(
    ("words", "accepted"),
    [
        (["x86_64-el9-gcc13-opt"], ["ANY", "CPU", "DARK", "GPU"]),
        (["aarch64-el9-gcc13-opt"], ["ANY"]),
        (["x86_64-el9-gcc13-opt", "--release", "Athena-25.0.1"], ["ANY", "CPU", "DARK", "GPU"]),
        (["x86_64-el8-gcc13-opt", "--release", "Athena-25.0.1"], ["ANY", "CPU", "GPU"]),
        (["x86_64-el9-gcc13-opt", "--container", "docker://img"], ["ANY", "CPU", "GPU"]),
        (["", "--container", "img", "--only-tags"], ["ANY", "DARK"]),
        (["", "--container", "docker://src", "--only-tags"], ["ANY", "DARK"]),
        (["", "--container", "docker://other", "--only-tags"], ["ANY"]),
        (["", "--container", "docker://other"], ["ANY", "CPU", "GPU"]),
        (["", "--container", "img"], ["ANY", "CPU", "DARK", "GPU"]),
        (["", "--queue", "CPU", "--queue", "SILENT"], ["CPU"]),
        (['{"gpu_spec": {"vendor": "nvidia", "model": ".*T4"}}', "--queue", "GPU"], ["GPU"]),
    ],
)
def test_options_of_the_command(command: Command, words: list[str], accepted: list[str]) -> None:
    assert document_of(command(*words, "--json"))["accepted"] == accepted


def test_the_table_shows_the_reason(command: Command) -> None:
    status, out, _ = command("#&nvidia:vram>=40960", "--queue", "GPU")
    assert status == 0
    assert "gpu_vram" in out and "asked >=40960, the queue has 15360" in out
    assert '"vram": ">=40960"' in out


@pytest.mark.parametrize(
    ("words", "queue", "detail"),
    [
        (["#aarch64"], "CPU", "asked aarch64-*-*, the queue has x86_64 / nothing described / nothing described"),
        (["#&nvidia"], "CPU", "the queue has no GPUs"),
        (["#&nvidia"], "DARK", "no pilot has reported the GPUs of the queue"),
        (["#&nvidia"], "SILENT", "the queue publishes no software tags"),
        (["#&nvidia"], "ANY", "releases of the queue is ANY, so its hardware is not known"),
        (["#&nvidia:model=.*A100"], "GPU", "of the model; asked .*A100, the queue has Tesla T4"),
        (["#&nvidia:model!=.*T4"], "GPU", "of the excluded model; excluded .*T4, the queue has Tesla T4"),
        (["#&nvidia:uarch!=Turing"], "GPU", "of an excluded one; excluded Turing, the queue has Turing"),
        (["#&nvidia:uarch=Ampere"], "GPU", "asked Ampere, the queue has Turing"),
        (["", "--container", "docker://img"], "DARK", "asked docker://img, which is not in tags or containers"),
        (["x86_64-el8-opt", "--release", "A-1"], "DARK", "asked x86_64-el8-opt, which is not in cmtconfigs"),
        (["#&nvidia:model=(?=T4)"], "GPU", "a pattern of the task cannot be used; (?=T4): invalid perl operator"),
    ],
)
def test_the_reason_shows_the_requirement_and_the_value_of_the_queue(
    command: Command, monkeypatch: pytest.MonkeyPatch, words: list[str], queue: str, detail: str
) -> None:
    monkeypatch.setenv("COLUMNS", "250")
    status, out, _ = command(*words, "--queue", queue)
    assert status == 0
    (line,) = [line for line in out.splitlines() if line.strip().startswith(queue)]
    assert detail in line
    if "; " not in detail and "asked" not in detail:
        assert line.rstrip().endswith(detail)


@pytest.mark.parametrize(
    ("requirement", "position"),
    [
        ("#&nvidia:memory>=1", "character 10"),
        ('{"gpu_spec": {"vendor": "nvidia", "excl": true}}', "character 35"),
        ("'{\"gpu_spec\": {}}'", "character 1"),
        ("{", "character 2"),
    ],
)
def test_an_invalid_requirement_is_refused_with_its_position(command: Command, requirement: str, position: str) -> None:
    status, out, err = command(requirement)
    assert (status, out) == (2, "")
    assert position in err and "accepted: " in err


def test_an_unsupported_pattern_is_a_reason(command: Command) -> None:
    result = command("#&nvidia:model=(?=T4)", "--queue", "GPU", "--json")
    assert document_of(result)["rejected"] == {"GPU": "pattern_unsupported"}
    assert "(?=T4)" in result[2]


def test_only_tags_requires_a_container(command: Command) -> None:
    status, out, err = command("", "--only-tags")
    assert (status, out) == (2, "") and "--container" in err


def test_an_unknown_queue_is_refused(command: Command) -> None:
    status, out, err = command("#x86_64", "--queue", "GONE")
    assert (status, out) == (4, "") and "GONE" in err


def test_stale_tags_give_a_warning(command: Command, database: Database) -> None:
    with database.begin() as connection:
        connection.execute(sa.text("UPDATE doma_panda.sw_tags SET last_update = now() - interval '2 days'"))
    result = command("#x86_64", "--json")
    assert document_of(result)["accepted"] == ["CPU", "DARK", "GPU"]
    assert "source software is stale" in result[2]
