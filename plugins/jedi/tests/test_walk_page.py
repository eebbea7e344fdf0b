"""The files of the page on running alongside PanDA, read as JEDI reads them: each step, and the ways back."""

from __future__ import annotations

import configparser
import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import plugged
import pytest
from grids.generator import scenario

PAGE = (Path(__file__).parents[3] / "docs" / "how-to" / "run-alongside-panda.md").read_text(encoding="utf-8")
FILES = re.findall(r"^```ini\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
#: What is not done here: nothing is installed, and JEDI is no process that could be restarted.
NOT_HERE = ("pip install . plugins/jedi\npip check\n", "restart JEDI.")


def _read(text: str) -> dict[str, dict[str, str]]:
    parser = configparser.ConfigParser()
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string(text)
    return {name: dict(parser[name]) for name in parser.sections()}


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Puts the sections of a file into JEDI's configuration, as its parser does, for the time of a test."""
    from pandajedi.jediconfig import jedi_config

    def change(text: str, **instead: str) -> None:
        for section, values in _read(text).items():
            if not hasattr(jedi_config, section):
                monkeypatch.setattr(jedi_config, section, SimpleNamespace(), raising=False)
            for key, value in values.items():
                monkeypatch.setattr(getattr(jedi_config, section), key, instead.get(key, value), raising=False)

    return change


def _job_broker(site: Any, label: str) -> str:
    """The class that JEDI's factory makes."""
    return type(plugged.broker_for(site, SimpleNamespace(vo="atlas", prodSourceLabel=label))).__name__


def _task_broker(site: Any, label: str) -> Any:
    from pandajedi.jediorder.TaskBroker import TaskBroker

    factory = TaskBroker(None, site.buffer, site.ddm, "atlas", label)
    assert factory.initializeMods(site.buffer, site.ddm)
    return factory.getImpl("atlas", label)


def test_every_step_and_the_ways_back(make_site: Any, use_service: Any, use: Any, tmp_path: Path) -> None:
    from gridbroker_jedi.settings import read_settings

    tasks, tasks_back, tested, jobs_back, every = FILES
    assert all(one in PAGE for one in NOT_HERE)
    site = make_site(scenario(2, "production_task"))
    address = tmp_path / "gridbroker.url"
    address.write_text(site.url, encoding="utf-8")
    use(tasks, database_url_file=str(address))
    settings = read_settings()
    assert settings.profile == "panda"
    assert (settings.url(), settings.timeout_s, settings.stale_s, settings.fallback) == (site.url, 5, 300, "panda")
    use_service(site.url)
    brokers = [type(_task_broker(site, label)).__name__ for label in ("managed", "test")]
    assert brokers == ["GridTaskBroker", "GridTaskBroker"]
    use(tested)
    assert [_job_broker(site, label) for label in ("test", "managed", "user")] == [
        "GridJobBroker", "AtlasProdJobBroker", "AtlasAnalJobBroker"
    ]  # fmt: skip
    use(every)
    assert [_job_broker(site, label) for label in ("test", "managed", "user")] == [
        "GridJobBroker", "GridJobBroker", "GridAnalysisJobBroker"
    ]  # fmt: skip
    use(jobs_back)
    assert [_job_broker(site, label) for label in ("test", "managed", "user")] == [
        "AtlasProdJobBroker", "AtlasProdJobBroker", "AtlasAnalJobBroker"
    ]  # fmt: skip
    use(tasks_back)
    assert type(_task_broker(site, "managed")).__name__ == "AtlasProdTaskBroker"


def test_a_job_of_label_test_is_brokered_here_and_others_by_panda(make_site: Any, use_service: Any, use: Any) -> None:
    site = make_site(scenario(0, "production_job"))
    service = use_service(site.url)
    use(FILES[2])
    rows = site.rows("SELECT jeditaskid FROM doma_panda.jedi_tasks ORDER BY 1")
    tested = [task for at, (task,) in enumerate(rows) if at % 2]
    site.run("UPDATE doma_panda.jedi_tasks SET prodsourcelabel = 'test' WHERE jeditaskid = ANY(%s)", tested)
    for (task,) in rows:
        for spec, cloud, chunk in plugged.chunks(site, task):
            plugged.broker_for(site, spec).doBrokerage(spec, cloud, chunk, None)
    service.close()
    decided = site.rows("SELECT DISTINCT jeditaskid FROM broker.decisions ORDER BY 1")
    assert [task for (task,) in decided] == tested
