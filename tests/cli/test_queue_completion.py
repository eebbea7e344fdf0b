from __future__ import annotations

import os
import subprocess
import sys

import pytest

from broker.cli import completion
from broker.store.connection.database import Database
from tests.fault.processes import load_grid


@pytest.mark.slow
def test_queues_complete_from_a_running_server(database: Database) -> None:
    load_grid(database)
    with database.begin() as connection:
        names = connection.exec_driver_sql("SELECT panda_queue FROM doma_panda.schedconfig_json").scalars().all()
    expected = sorted(names)[0]
    variables = {completion.VARIABLE: "complete_bash", "COMP_CWORD": "3", "BROKER_DATABASE_URL": database.url}
    words = f"broker queue history {expected[:3]}"
    result = subprocess.run(
        [sys.executable, "-m", "broker.cli.entry"],
        env={**os.environ, **variables, "COMP_WORDS": words},
        capture_output=True,
        text=True,
        check=True,
    )
    assert expected in result.stdout.split()
    assert set(result.stdout.split()) <= set(names)
