"""The job brokers in JEDI's own hands: factory, brokerage, splitter, on generated grids."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import Any

import plugged
import pytest
from grids.generator import scenario
from panda.installation import CLOCK

ANALYSIS = pytest.mark.parametrize("kind", ["production_job", "analysis_job"])


def _tasks(site: Any) -> list[int]:
    return [task for (task,) in site.rows("SELECT jeditaskid FROM doma_panda.jedi_tasks ORDER BY 1")]


def _counts(site: Any) -> dict[tuple[str, str, str], int]:
    rows = site.rows("SELECT brokerage, outcome, reason, calls FROM broker.plugin_calls")
    return {(brokerage, outcome, reason): calls for brokerage, outcome, reason, calls in rows}


@ANALYSIS
def test_candidates_are_those_of_the_engine_and_can_be_split(kind: Any, make_site: Any, use_service: Any) -> None:
    site = make_site(scenario(0, kind))
    service = use_service(site.url)
    plugged.configure()
    brokered = 0
    for task in _tasks(site):
        for spec, cloud, chunk in plugged.chunks(site, task):
            broker = plugged.broker_for(site, spec)
            status, answered = broker.doBrokerage(spec, cloud, chunk, None)
            assert answered is chunk
            if status != broker.SC_SUCCEEDED:
                assert not chunk.siteCandidates and spec.errorDialog.startswith("gridbroker: ")
                continue
            brokered += 1
            ids = {file.fileID for dataset in chunk.getDatasets() for file in dataset.Files}
            for name, candidate in chunk.siteCandidates.items():
                assert broker.siteMapper.checkSite(name)
                assert math.isfinite(candidate.weight) and candidate.weight >= 0
                assert isinstance(candidate.nQueuedJobs, int) and isinstance(candidate.nAssignedJobs, int)
                assert candidate.localDiskFiles | candidate.localTapeFiles <= ids
            names = set(chunk.siteCandidates)
            jobs = plugged.split(site, spec, chunk)
            assert set(jobs) <= names
    assert brokered >= 4
    service.close()
    stored = site.rows("SELECT brokerage, outcome, count(*) FROM broker.decisions GROUP BY 1, 2")
    assert sum(count for *_, count in stored) == len(_tasks(site))
    assert {brokerage for brokerage, *_ in stored} == {kind}
    assert _counts(site)[kind, "decided", "brokered"] == brokered


def test_files_are_those_that_panda_finds(make_site: Any, use_service: Any) -> None:
    from panda.decisions import decide_jobs

    plugged.configure()
    compared = 0
    for kind, seed in (("production_job", 8), ("production_job", 0), ("analysis_job", 4)):
        site = make_site(scenario(seed, kind))
        use_service(site.url)
        analysis = kind == "analysis_job"
        theirs = {one.key: one.files for one in decide_jobs(site.buffer, site.ddm, analysis=analysis)}
        for task in _tasks(site):
            for spec, cloud, chunk in plugged.chunks(site, task):
                plugged.broker_for(site, spec).doBrokerage(spec, cloud, chunk, None)
                found = theirs[task, chunk.masterDataset.datasetID, chunk.ramCount or 0]
                for name, candidate in chunk.siteCandidates.items():
                    if name in found:
                        compared += 1
                        own = (len(candidate.localDiskFiles), len(candidate.localTapeFiles))
                        assert own == (found[name]["disk"], found[name]["tape"])
    assert compared >= 8


def test_an_engine_that_cannot_be_reached_falls_back_to_pandas_own_class(make_site: Any, use_service: Any) -> None:
    from panda.decisions import decide_jobs

    site = make_site(scenario(0, "production_job"))
    theirs = {one.key: one.candidates for one in decide_jobs(site.buffer, site.ddm, analysis=False)}
    use_service("postgresql://nobody@127.0.0.1:1/none")
    plugged.configure()
    for task in _tasks(site):
        for spec, cloud, chunk in plugged.chunks(site, task):
            broker = plugged.broker_for(site, spec)
            broker.doBrokerage(spec, cloud, chunk, None)
            assert type(broker._panda).__name__ == "AtlasProdJobBroker"
            wanted = theirs[task, chunk.masterDataset.datasetID, chunk.ramCount or 0]
            assert sorted(one.weight for one in chunk.siteCandidates.values()) == pytest.approx(sorted(wanted.values()))


@pytest.mark.parametrize(
    ("settings", "spoil", "reason"),
    [
        ({"timeout_s": 1e-9}, "", "starting"),
        ({"stale_s": 1800.0, "refresh_s": 1e9}, "age", "stale_snapshot"),
        ({}, "DROP TABLE broker.container_contents", "error"),
        ({}, "DELETE FROM doma_panda.schedconfig_json", "stale_snapshot"),
        ({"profile": "no_such_profile"}, "", "error"),
    ],
)
def test_without_an_answer_the_call_is_counted_by_its_reason(
    settings: Any, spoil: str, reason: str, make_site: Any, use_service: Any
) -> None:
    site = make_site(scenario(0, "production_job"))
    service = use_service(site.url, fallback="wait", **settings)
    plugged.configure()
    spec, cloud, chunk = plugged.chunks(site, _tasks(site)[0])[0]
    broker = plugged.broker_for(site, spec)
    if spoil == "age":
        broker.doBrokerage(*plugged.chunks(site, _tasks(site)[0])[0], None)
        CLOCK.now += timedelta(minutes=31)
    elif spoil:
        site.run(spoil)
    status, answered = broker.doBrokerage(spec, cloud, chunk, None)
    assert status.value == 3 and answered is chunk and not chunk.siteCandidates
    assert reason in spec.errorDialog
    service.close()
    if "profile" not in settings:
        assert _counts(site)["production_job", "waits", reason] == 1


def test_age_at_the_limit_is_not_stale(make_site: Any, use_service: Any) -> None:
    site = make_site(scenario(0, "production_job"))
    use_service(site.url, fallback="wait", stale_s=1800.0, refresh_s=1e9)
    plugged.configure()
    task = _tasks(site)[0]
    broker = plugged.broker_for(site, plugged.chunks(site, task)[0][0])
    broker.doBrokerage(*plugged.chunks(site, task)[0], None)
    CLOCK.now += timedelta(minutes=30)
    status, _ = broker.doBrokerage(*plugged.chunks(site, task)[0], None)
    assert status.value != 3


def test_the_snapshot_is_shared_between_chunks_and_read_anew_when_old(make_site: Any, use_service: Any) -> None:
    site = make_site(scenario(0, "production_job"))
    service = use_service(site.url, refresh_s=60.0)
    plugged.configure()
    for task in _tasks(site)[:3]:
        for spec, cloud, chunk in plugged.chunks(site, task):
            plugged.broker_for(site, spec).doBrokerage(spec, cloud, chunk, None)
    service.close()
    assert site.rows("SELECT count(DISTINCT snapshot) FROM broker.decisions") == [(1,)]


def test_a_queue_that_panda_does_not_know_is_no_success(make_site: Any, use_service: Any) -> None:
    site = make_site(scenario(0, "production_job"))
    service = use_service(site.url, fallback="wait")
    plugged.configure()
    spec, cloud, chunk = plugged.chunks(site, _tasks(site)[0])[0]
    broker = plugged.broker_for(site, spec)
    broker.siteMapper.checkSite = lambda name: False
    status, _ = broker.doBrokerage(spec, cloud, chunk, None)
    assert status.value == 3 and not chunk.siteCandidates
    service.close()
    assert _counts(site)["production_job", "waits", "unknown_queue"] == 1


def test_what_jedi_placed_in_its_cycle_counts(make_site: Any, use_service: Any) -> None:
    site = make_site(scenario(0, "production_job"))
    use_service(site.url)
    plugged.configure()
    task = _tasks(site)[0]
    spec, cloud, chunk = plugged.chunks(site, task)[0]
    plugged.broker_for(site, spec).doBrokerage(spec, cloud, chunk, None)
    heaviest = max(chunk.siteCandidates.values(), key=lambda one: one.weight)
    spec, cloud, again = plugged.chunks(site, task)[0]
    broker = plugged.broker_for(site, spec)
    broker.setLiveCounter({heaviest.siteName: 500})
    broker.doBrokerage(spec, cloud, again, None)
    after = again.siteCandidates.get(heaviest.siteName)
    assert after is None or after.weight < heaviest.weight
    if after is not None:
        assert after.nQueuedJobs == heaviest.nQueuedJobs  # JEDI adds its own count to this


def test_the_draws_of_jedi_follow_the_weights(make_site: Any, use_service: Any) -> None:
    site = make_site(scenario(0, "production_job"))
    use_service(site.url)
    plugged.configure()
    for task in _tasks(site):
        for spec, cloud, chunk in plugged.chunks(site, task):
            plugged.broker_for(site, spec).doBrokerage(spec, cloud, chunk, None)
            weights = {name: one.weight for name, one in chunk.siteCandidates.items() if one.can_accept_jobs()}
            if len(weights) < 2 or min(weights.values()) == 0 or chunk.masterDataset.isDistributed():
                continue
            drawn = dict.fromkeys(weights, 0)
            for _ in range(2000):
                drawn[chunk.getOneSiteCandidate(0).siteName] += 1
            total = sum(weights.values())
            for name, weight in weights.items():
                assert drawn[name] / 2000 == pytest.approx(weight / total, abs=0.05)
            return
    pytest.fail("no chunk with several candidates")


def test_a_constructor_needs_neither_database_nor_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    from gridbroker_jedi.job import GridAnalysisJobBroker, GridJobBroker
    from gridbroker_jedi.task import GridTaskBroker

    class Buffer:
        def get_site_mapper(self) -> None:
            return None

    monkeypatch.setenv("BROKER_DATABASE_URL", "postgresql://nobody@127.0.0.1:1/none")
    GridJobBroker(None, Buffer())
    GridAnalysisJobBroker(None, Buffer())
    GridTaskBroker(Buffer(), None)


def test_a_configuration_with_an_unknown_key_leaves_panda_at_work(
    make_site: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from types import SimpleNamespace

    from pandajedi.jediconfig import jedi_config

    site = make_site(scenario(0, "production_job"))
    monkeypatch.setattr(jedi_config, "gridbroker", SimpleNamespace(time_out=5), raising=False)
    plugged.configure()
    spec, cloud, chunk = plugged.chunks(site, _tasks(site)[0])[0]
    broker = plugged.broker_for(site, spec)
    broker.doBrokerage(spec, cloud, chunk, None)
    assert type(broker._panda).__name__ == "AtlasProdJobBroker"
