"""Three changes of a usual kind, made in a copy: each touches few rooms, and what it adds arrives at every end.

The edits below are what somebody would write by hand; what ``make reference`` makes beside them is not counted.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.docs.source_tree import ROOT
from tests.docs.test_walk_a_rule_in_the_tree import NOT_COPIED
from tests.docs.test_walk_add_a_source import run

Edits = Mapping[str, tuple[tuple[str, str], ...]]

#: A column ``note`` of a SubmitPool, from its table to command, API and page.
NOTE: Edits = {
    "broker/pools/statements/pool_reads.py": (
        ("pool.last_used_at, pool.refreshed_at,\n", "pool.last_used_at, pool.refreshed_at, pool.note,\n"),
        (
            '        refreshed_at: when its queues were last found out; None: never.\n    """\n',
            "        refreshed_at: when its queues were last found out; None: never.\n"
            '        note: what operators should know of it.\n    """\n',
        ),
        (
            "    refreshed_at: datetime | None\n\n\nclass PoolLine",
            "    refreshed_at: datetime | None\n    note: str | None = None\n\n\nclass PoolLine",
        ),
    ),
    "broker/web/templates/pool.html": (
        ("{{ answer.canonical }}</pre>", "{{ answer.canonical }}</pre>{{ answer.note }}"),
    ),
}
#: A filter ``share`` of the list of jobs, for command, API and page.
SHARE: Edits = {
    "broker/history/statements/task_facts.py": (
        (
            "      AND (CAST(:state AS text) IS NULL OR jobstatus = :state)\n",
            "      AND (CAST(:state AS text) IS NULL OR jobstatus = :state)\n"
            "      AND (CAST(:share AS text) IS NULL OR gshare = :share)\n",
        ),
        (
            "    error: str | None = None\n    limit:",
            "    error: str | None = None\n    share: str | None = None\n    limit:",
        ),
    ),
    "broker/history/commands/jobs.py": (
        (
            '    after: Annotated[int | None, typer.Option("--after"',
            '    share: Annotated[str | None, typer.Option("--share", help="Only jobs of this share.")] = None,\n'
            '    after: Annotated[int | None, typer.Option("--after"',
        ),
        ("state=state, error=error,", "state=state, error=error, share=share,"),
    ),
    "broker/history/routes/jobs.py": (
        ("    after: Annotated", "    share: Name | None = None,\n    after: Annotated"),
        ("state=state, error=error,", "state=state, error=error, share=share,"),
    ),
    "broker/history/pages/work.py": (
        (
            "    error: Annotated[str | None, Query(max_length=100)] = None,\n    after:",
            "    error: Annotated[str | None, Query(max_length=100)] = None,\n"
            "    share: Name | None = None,\n    after:",
        ),
        ("error=error or None, after=after,", "error=error or None, share=share or None, after=after,"),
        ('"error": error or ""}', '"error": error or "", "share": share or ""}'),
    ),
    "broker/web/templates/jobs.html": (
        ("<button>Show", '<label>share <input name="share" value="{{ given.share }}"></label> <button>Show'),
    ),
}
#: A column ``who`` of an answer to why-not: who can do something about the reason.
WHO: Edits = {
    "broker/decisions/answers/decision_model.py": (
        (
            "    candidate: RejectedCandidate\n    every_rule:",
            "    candidate: RejectedCandidate\n    who: str\n    every_rule:",
        ),
    ),
    "broker/decisions/answers/why_not.py": (
        (
            "from broker.decisions.answers.remedies import",
            "from broker.decisions.answers.known_reasons import who_can_act\n"
            "from broker.decisions.answers.remedies import",
        ),
        (
            "        candidate=rejected_candidate(answer),\n",
            "        candidate=rejected_candidate(answer),\n"
            "        who=who_can_act(rejected_candidate(answer).code),\n",
        ),
    ),
}
STEP = "schema/broker/9999_note.sql"
STEP_TEXT = "ALTER TABLE broker.submit_pools ADD COLUMN note text;\n"
SHOWN = '''"""What was added arrives at every end."""

from __future__ import annotations

import httpx
import sqlalchemy as sa

from broker.store.connection.database import Database
from tests.brokerages.small_grid import TASK
from tests.cli.commands import Command
from tests.web.test_other_pages import A_POOL, POOL
from tests.web.test_page_api_command import broker, printed  # noqa: F401 - a fixture


def test_a_note(somebody: httpx.Client, broker: Command, decided: Database) -> None:  # noqa: F811
    with decided.begin() as connection:
        connection.execute(A_POOL, {"pool": POOL})
        connection.execute(sa.text("UPDATE broker.submit_pools SET note = 'down on Monday'"))
    assert somebody.get(f"/api/v1/pools/{POOL}").json()["note"] == "down on Monday"
    assert [one["note"] for one in printed(broker, "pool", "show", POOL)] == ["down on Monday"]
    assert "down on Monday" in somebody.get(f"/pools/{POOL}").text


def test_a_share(somebody: httpx.Client, broker: Command, decided: Database) -> None:  # noqa: F811
    with decided.begin() as connection:
        table = decided.names.table("jobsactive4")
        least = f"(SELECT min(pandaid) FROM {table})"
        connection.execute(sa.text(f"UPDATE {table} SET gshare = 'Rare' WHERE pandaid = {least}"))
    every, rare = (somebody.get("/api/v1/jobs", params=given).json()["jobs"] for given in ({}, {"share": "Rare"}))
    assert len(every) > len(rare) == 1 == len(printed(broker, "jobs", "--share", "Rare"))
    page = somebody.get("/jobs?share=Rare").text
    assert 'name="share" value="Rare"' in page and "1 jobs, the newest first" in page


def test_who(somebody: httpx.Client, broker: Command) -> None:  # noqa: F811
    (line,) = somebody.get(f"/api/v1/tasks/{TASK + 2}/why-not/ALPHA_MCORE").json()["answers"]
    (said,) = printed(broker, "why-not", str(TASK + 2), "ALPHA_MCORE")
    assert line["who"] == said["who"] in ("you", "wait", "ask")
'''


def rooms(*names: str) -> set[str]:
    """The first two folders of each file."""
    return {"/".join(name.split("/")[:2]) for name in names}


def make(tree: Path, edits: Edits) -> None:
    for name, changes in edits.items():
        text = (tree / name).read_text(encoding="utf-8")
        for old, new in changes:
            assert text.count(old) == 1, f"{name}: {old!r} stands there {text.count(old)} times"
            text = text.replace(old, new)
        (tree / name).write_text(text, encoding="utf-8")


def test_few_rooms_know_of_a_change() -> None:
    assert len(rooms(STEP, *NOTE)) <= 3
    assert len(rooms(*SHARE)) <= 4
    assert len(WHO) <= 2


@pytest.mark.walk
@pytest.mark.timeout(600)
def test_what_is_added_arrives_at_every_end(tmp_path: Path) -> None:
    tree = Path(shutil.copytree(ROOT, tmp_path / "tree", ignore=NOT_COPIED))
    subprocess.run("git init -q . && git add -A", cwd=tree, shell=True, check=True)  # noqa: S602 - a text of this file
    for edits in (NOTE, SHARE, WHO):
        make(tree, edits)
    (tree / STEP).write_text(STEP_TEXT, encoding="utf-8")
    (tree / "tests/web/test_sample.py").write_text(SHOWN, encoding="utf-8")
    done = run(tree, f"{sys.executable} -m pytest -q -p no:cacheprovider tests/web/test_sample.py")
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
