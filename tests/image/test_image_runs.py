"""The image runs as an unprivileged account, on a read-only root, with the database password from a file."""

from __future__ import annotations

import contextlib
import os
import signal
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import psycopg
import pytest
import yaml

from broker.store.connection.database import Database
from tests.fault.processes import load_grid, wait_until
from tests.image.container import Container, Image, first_process
from tests.operations.postgres_cluster import PostgresCluster, free_port

ROOT = Path(__file__).parents[2]
COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))["services"]
LARGEST_BYTES = 450_000_000
"""Limit of all installed files without the base; half of them are the compiler of the extra ``fast``."""
SECRET = "/run/secrets/database-password"


@pytest.fixture
def container(image: Image, cluster: PostgresCluster, tmp_path: Path) -> Iterator[Container]:
    """A container with the settings of docker-compose.yml, except the address of the database."""
    volume, secrets = tmp_path / "volume", tmp_path / "secrets"
    volume.mkdir()
    secrets.mkdir()
    (secrets / "database-password").write_text(f"{cluster.password}\n", encoding="utf-8")
    with psycopg.connect(cluster.url("postgres"), autocommit=True) as connection:
        connection.execute("CREATE DATABASE broker")
    broker_container = Container(
        "one",
        image,
        volume,
        secrets,
        {
            "BROKER_DATABASE_URL": f"postgresql://postgres@127.0.0.1:{cluster.port}/broker",
            "BROKER_DATABASE_PASSWORD_FILE": SECRET,
        },
    )
    os.chown(volume, broker_container.user, broker_container.user)
    yield broker_container


def test_the_image_is_small_and_has_no_installer(image: Image) -> None:
    folder = image.root / "opt/gridbroker"
    files = [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]
    assert sum(path.stat().st_size for path in files) < LARGEST_BYTES
    assert not list(folder.glob("bin/pip*"))


def test_the_image_runs_unprivileged_and_writes_only_to_its_volume(container: Container) -> None:
    writes = "open('/var/lib/gridbroker/x', 'w'); open('/opt/gridbroker/x', 'w')"
    probe = f"import os; print(os.getuid(), os.getgroups()); {writes}"
    result = container.run("python", "-c", probe)
    assert result.stdout.split() == [str(container.user), "[]"]
    assert container.user > 0
    assert result.returncode == 1
    assert "Read-only file system: '/opt/gridbroker/x'" in result.stderr
    assert (container.volume / "x").exists()


def test_a_missing_password_file_is_reported_by_its_name(container: Container) -> None:
    (container.secrets / "database-password").unlink()
    result = container.run("broker", "doctor")
    assert result.returncode != 0
    assert f"BROKER_DATABASE_PASSWORD_FILE={SECRET}" in result.stderr


def answers(port: int, path: str) -> bool:
    url = f"http://127.0.0.1:{port}{path}"
    with contextlib.suppress(urllib.error.URLError, ConnectionError), urllib.request.urlopen(url, timeout=5) as answer:
        return bool(answer.status == 200)
    return False


def finished_cycles(database: Database) -> int:
    with database.begin() as connection:
        return int(
            connection.exec_driver_sql("SELECT count(*) FROM broker.agent_runs WHERE outcome = 'done'").scalar_one()
        )


def test_two_brokers_and_the_api_work_on_one_database(
    container: Container, cluster: PostgresCluster, tmp_path: Path
) -> None:
    # run the commands of docker-compose.yml and of the image
    shell, option, line = COMPOSE["broker"]["entrypoint"]
    command = list(COMPOSE["api"]["command"])
    command[command.index("--host") + 1] = "127.0.0.1"
    port, broker_containers = free_port(), [container, replace(container, name="two")]
    with contextlib.ExitStack() as stack:
        installation = container.run(shell, option, line.split("&&")[0])
        assert installation.returncode == 0, installation.stderr
        database = stack.enter_context(Database(cluster.url("broker")))
        load_grid(database, datetime.now(UTC).replace(microsecond=0))
        brokers = [
            stack.enter_context(broker_container.service(log=tmp_path / f"{broker_container.name}.log"))
            for broker_container in broker_containers
        ]
        api = replace(container, name="api")
        stack.enter_context(api.service(*command, "--port", str(port), log=tmp_path / "api.log"))
        for broker_container in broker_containers:
            wait_for_health(broker_container, container.image.config["Healthcheck"]["Test"])
        wait_until(lambda: answers(port, "/health/ready"), "the API is ready")
        wait_until(lambda: finished_cycles(database) > 0, "a cycle was done")
        assert answers(port, "/")
        assert oct((container.volume / "api-token").stat().st_mode)[-3:] == "600"
        for broker in brokers:
            os.kill(first_process(broker.pid), signal.SIGTERM)
        stop_within_s = float(COMPOSE["broker"]["stop_grace_period"].removesuffix("s"))
        assert [broker.wait(stop_within_s) for broker in brokers] == [0, 0]


def wait_for_health(container: Container, test: list[str]) -> None:
    """Wait until the health check of the image passes in a container; a failure has the output of the last check."""
    outputs = ["not asked yet"]

    def is_healthy() -> bool:
        outputs.append(container.health(test))
        return not outputs[-1]

    try:
        wait_until(is_healthy, "the container is healthy")
    except AssertionError as error:
        raise AssertionError(f"{container.name}: {outputs[-1]}") from error
