"""Every transaction of every agent is refused when its lease is lost: before its first write, and before its commit."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

import pytest
import sqlalchemy as sa

import agents
from agents.service import fault_points
from agents.service.registry import NAMES
from broker.store.connection.database import Database
from tests.agents.losing_leases import (
    Transactions,
    contents,
    cycle,
    lose_when_written,
    note_writes,
    noted_writes,
    take_over,
)
from tests.agents.writers import WRITERS, make_agent

EACH = [
    pytest.param(name, number, id=f"{name}: {writer.transactions[number - 1]}")
    for name, writer in WRITERS.items()
    for number in writer.writing_numbers
]


def test_each_registered_agent_has_a_scenario_in_which_it_writes() -> None:
    assert set(WRITERS) == set(NAMES), "give a new agent an entry in tests/agents/writers.py"
    assert all(writer.writing_numbers for writer in WRITERS.values())


@pytest.mark.parametrize("name", NAMES)
def test_a_cycle_that_keeps_its_lease_writes_in_its_fenced_transactions_and_nowhere_else(
    database: Database, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without this, the other tests of this file would prove nothing."""
    writer, transactions = WRITERS[name], Transactions()
    agent = make_agent(name, writer.fill(database, tmp_path) or {})
    note_writes(database)
    transactions.watch(monkeypatch)
    record = cycle(database, agent, writer.now)
    assert record.outcome == "done", record.error
    assert transactions.count == len(writer.transactions)
    assert len(noted_writes(database)) == len(writer.writing_numbers), noted_writes(database)


@pytest.mark.parametrize(("name", "number"), EACH)
def test_a_transaction_under_a_lost_lease_writes_nothing_at_all(
    database: Database, name: str, number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = WRITERS[name]
    agent = make_agent(name, writer.fill(database, tmp_path) or {})
    transactions = Transactions(number, lambda: take_over(database, name))
    transactions.watch(monkeypatch)
    record = cycle(database, agent, writer.now)
    assert (record.outcome, transactions.count) == ("lost_lease", number), record.error


@pytest.mark.slow
@pytest.mark.parametrize(("name", "number"), EACH)
def test_a_transaction_that_loses_its_lease_is_not_committed(
    database: Database, name: str, number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = WRITERS[name]
    agent = make_agent(name, writer.fill(database, tmp_path) or {})
    before = {}

    def lose() -> None:
        before.update(contents(database))
        lose_when_written(database)

    transactions = Transactions(number, lose)
    transactions.watch(monkeypatch)
    record = cycle(database, agent, writer.now)
    assert (record.outcome, transactions.count) == ("lost_lease", number), record.error
    assert contents(database) == before


WAYS_TO_WRITE = {"begin", "autocommit", "repeatable", "_database", "fence"}
"""Attributes by which a module would get at a transaction without a fence, or at a fence of its own."""


def own_transactions(path: Path) -> set[str]:
    """The names that a module uses to write past ``context.writing()``."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    attributes = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
    imported = {name.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for name in node.names}
    engines = {
        "connection.engine"
        for node in attributes
        if node.attr == "engine" and isinstance(node.value, ast.Name) and "connection" in node.value.id
    }
    called = {ast.unparse(node.func).rpartition(".")[::2] for node in ast.walk(tree) if isinstance(node, ast.Call)}
    opened = {name for module, name in called if name in {"Database", "create_engine"} or module == "psycopg"}
    names = {node.attr for node in attributes} & WAYS_TO_WRITE | imported & {"leases", "writing", "fence"}
    return names | engines | opened


def test_no_module_of_an_agent_opens_its_own_transaction() -> None:
    """Check the modules of this package except the service, and the modules of all registered agents."""
    root = Path(agents.__path__[0])
    modules = {path for path in root.rglob("*.py") if path.relative_to(root).parts[0] != "service"}
    modules |= {Path(inspect.getfile(type(make_agent(name, {})))) for name in NAMES}
    offenders = {str(path): ways for path in sorted(modules) if (ways := own_transactions(path))}
    assert offenders == {}, "write with context.writing()"


@pytest.mark.parametrize(
    "line",
    [
        "with context._database.begin() as connection: pass",
        "with database.autocommit() as connection: pass",
        "with connection.engine.connect() as other: pass",
        "with Database(url) as own: pass",
        "own = sa.create_engine(url)",
        "own = psycopg.connect(url)",
        "from broker.store.service import leases",
        "from broker.store.service.leases import writing",
    ],
)
def test_an_own_transaction_is_detected(tmp_path: Path, line: str) -> None:
    module = tmp_path / "module.py"
    module.write_text(line + "\n", encoding="utf-8")
    assert own_transactions(module)


@pytest.mark.slow
def test_a_cycle_that_meets_a_lock_ends_and_can_be_repeated(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = WRITERS["production_task"]
    agent = make_agent("production_task", writer.fill(database, tmp_path) or {})
    with database.begin() as locker:
        fault_points.arm_action("after_snapshot", lambda: locker.execute(sa.text("LOCK TABLE broker.decisions")))
        record = cycle(database, agent, writer.now)
    assert (record.outcome, "lock timeout" in str(record.error)) == ("failed_transient", True)
    assert contents(database)["broker.decisions"] == []
    with database.begin() as connection:
        connection.execute(sa.text("DELETE FROM broker.leases"))
    assert cycle(database, agent, writer.now).outcome == "done"
