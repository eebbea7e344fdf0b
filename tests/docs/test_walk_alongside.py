"""Runs the page on running alongside PanDA as written, on PanDA's tables: from nothing, step by step, and back."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
import sqlalchemy as sa

from broker import resources
from broker.simulation.model.demo.facts import facts_from_texts
from broker.simulation.model.demo.grid import build_scenario
from broker.store.connection.database import Database
from broker.store.connection.embedded import SUPERUSER, EmbeddedServer
from broker.store.connection.embedded_binaries import program
from broker.store.scenarios.load_dump import REPLICA_TABLES, load
from broker.store.scenarios.scenario_file import Scenario
from broker.store.schema.migrate import upgrade
from tests.agents.alongside.playing_panda import PlayedPanda, played_panda
from tests.alongside.panda_forms import reshape
from tests.docs.source_tree import ROOT

pytestmark = pytest.mark.walk
PAGE = (ROOT / "docs" / "how-to" / "run-alongside-panda.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
#: Blocks that cannot run here. plugins/jedi/tests/test_walk_page.py tests JEDI's own factories with the page's files.
NOT_HERE = {
    "pip install . plugins/jedi\npip check": "needs the environment that JEDI runs in",
    "ini": "JEDI reads panda_jedi.cfg when it is restarted, and there is no JEDI",
}
#: Replacements for commands: the service runs one cycle instead of running until it is stopped.
PRELUDE = """
set -eu
python() { "$PYTHON" "$@"; }
broker() {
    if [ "$*" = serve ]; then set -- serve --once; fi
    "$PYTHON" -m broker.cli.entry "$@"
}
"""
MERGE = """
import sys, yaml
whole = yaml.safe_load(open(sys.argv[1]))
whole["agents"].update(yaml.safe_load(open(sys.argv[2]))["agents"])
open(sys.argv[1], "w").write(yaml.safe_dump(whole))
"""
LABELS = {"test", "managed"}


@pytest.fixture
def home() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="walk-alongside-"))
    folder.chmod(0o755)
    yield folder
    EmbeddedServer(folder / "server").shut_down()


@pytest.fixture
def site(home: Path) -> Iterator[Database]:
    """A PanDA database named panda, opened by its owner."""
    server = EmbeddedServer(home / "server")
    server.start()
    with Database(server.url(SUPERUSER)) as admin, admin.autocommit() as connection:
        connection.exec_driver_sql("CREATE DATABASE panda")
    url = sa.make_url(server.url(SUPERUSER)).set(database="panda").render_as_string(hide_password=False)
    texts = [path.read_text(encoding="utf-8") for path in sorted(resources.path("config/demo").glob("*.yaml"))]
    scenario = Scenario.of(build_scenario(facts_from_texts(texts), datetime.now(UTC), 1, True))
    with Database(url) as database:
        upgrade(database)
        load(database, scenario)
        with database.begin() as connection:
            # a job that has waited for longer than PanDA allows
            connection.exec_driver_sql(
                "INSERT INTO doma_panda.jobsdefined4 (pandaid, jobstatus, creationtime, modificationtime, lockedby) "
                "VALUES (1, 'pending', now() - interval '9 h', now() - interval '9 h', 'jedi')"
            )
        reshape(database)
        with database.begin() as connection:
            connection.exec_driver_sql("CREATE SCHEMA doma_deft")
            connection.exec_driver_sql(
                "CREATE TABLE doma_deft.t_task AS SELECT jeditaskid AS taskid, status::varchar(12) AS status, "
                "modificationtime AS timestamp FROM doma_panda.jedi_tasks"
            )
        replicas = {name: scenario.tables[name] for name in REPLICA_TABLES if name in scenario.tables}
        (home / "replicas.json").write_text(
            json.dumps({"now": scenario.now.isoformat(), "tables": replicas}, default=str), encoding="utf-8"
        )
        yield database
    server.stop()


def localize(text: str, home: Path, site: Database, panda: PlayedPanda) -> str:
    """Replace addresses and folders of the page by those of this test."""
    url = sa.make_url(site.url).set(username="broker").render_as_string(hide_password=False)
    replacements = {
        "postgresql://broker@db.example.org/panda": shlex.quote(url),
        "/etc/gridbroker": str(home / "etc"),
        "https://panda.example.org:25443": f"http://127.0.0.1:{panda.port}",
        "/run/secrets/panda_token": str(home / "token"),
    }
    for text_on_page, replacement in replacements.items():
        text = text.replace(text_on_page, replacement)
    assert "example.org" not in text, text
    return text


def script(home: Path, site: Database, panda: PlayedPanda) -> str:
    """All commands of the page, from top to bottom."""
    steps = [PRELUDE]
    psql = f"{program('psql')} -q -v ON_ERROR_STOP=1 {shlex.quote(site.url)}"
    for number, (kind, block) in enumerate(BLOCKS):
        steps.append(f'echo "== {number} {kind}"')
        if kind == "ini" or block.strip() in NOT_HERE:
            continue
        text = localize(block, home, site, panda)
        if kind == "sql":
            steps.append(f"{psql} <<'SQL'\n{text}SQL")
        elif kind == "yaml":
            path = re.match(r"# (?:entry of )?(\S+)\n", text)
            assert path is not None, "the first line names the file"
            steps.append(f"cat > {home}/block.yaml <<'YAML'\n{text}YAML")
            merge_command = f'python -c {shlex.quote(MERGE)} "{path[1]}" {home}/block.yaml'
            steps.append(merge_command if "entry of" in text else f'cp {home}/block.yaml "{path[1]}"')
        else:
            assert kind == "", kind
            steps.append(text)
            if "broker db init" in text:
                # replaces the agents that query Rucio, as the page says
                steps.append(f"broker db load {home}/replicas.json")
    return "\n".join(steps)


def definitions(site: Database) -> str:
    """The definitions of everything in the database, without rows and rights."""
    result = subprocess.run(
        [program("pg_dump"), "--schema-only", "--no-privileges", "--restrict-key=x", site.url],
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    return result.stdout


def count(site: Database, query: str) -> int:
    with site.read_snapshot() as connection:
        return int(connection.execute(sa.text(query)).scalar_one())


@pytest.mark.timeout(580)
def test_the_page_from_top_to_bottom(home: Path, site: Database) -> None:
    before = definitions(site)
    assigned = "SELECT count(*) FROM doma_panda.jedi_tasks WHERE status = 'ready' AND nucleus IS NOT NULL"
    count_before = count(site, assigned)
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("BROKER_", "XDG_"))}
    (home / "token").write_text("secret\n", encoding="ascii")
    with played_panda() as panda:
        result = subprocess.run(
            ["bash", "-c", script(home, site, panda)],
            cwd=home,
            env={**inherited, "HOME": str(home), "PYTHON": sys.executable, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            timeout=500,
        )
    assert result.returncode == 0, result.stdout[-3000:] + result.stderr[-3000:]
    assert "alongside PanDA: schema doma_panda was left as it is" in result.stdout
    assert len((home / "decisions.jsonl").read_text(encoding="utf-8").splitlines()) > 10
    assert (home / "shadow.svg").exists()
    assert "profile: panda" in (home / "etc" / "broker.yaml").read_text(encoding="utf-8")
    rights = [line for line in result.stdout.splitlines() if line.startswith("missing right")]
    assert rights == [], "what the page grants is what is needed"
    assert count(site, "SELECT count(*) FROM pg_namespace WHERE nspname = 'broker'") == 0
    assert count(site, assigned) > count_before, "the agent gave nuclei"
    ready = "SELECT count(*) FROM doma_deft.t_task JOIN doma_panda.jedi_tasks ON taskid = jeditaskid AND nucleus <> '' "
    assert count(site, ready + "WHERE t_task.status = 'ready'") > 0
    requests = [(path, body["job_ids"], body["code"]) for path, body, _ in panda.asked]
    assert ("/api/v1/job/kill", [1], 4) in requests
    assert definitions(site) == before
    assert count(site, "SELECT count(*) FROM pg_roles WHERE rolname = 'broker'") == 0


def test_blocks_that_cannot_run_here_are_on_the_page() -> None:
    kinds = {kind for kind, _ in BLOCKS}
    assert {"pip install . plugins/jedi\npip check"} == {text.strip() for _, text in BLOCKS} & NOT_HERE.keys()
    assert kinds == {"", "sql", "yaml", "ini"}


def test_each_step_names_the_profile() -> None:
    steps = {text[0]: text for text in re.split(r"^## ", PAGE, flags=re.MULTILINE) if re.match(r"\d\. ", text)}
    assert {number: bool(re.search(r"profile(:| =) panda", text)) for number, text in steps.items()} == dict.fromkeys(
        "1234", True
    )
    for kind, block in BLOCKS:
        if kind == "ini" and "[gridbroker]" in block:
            assert "profile = panda\n" in block
