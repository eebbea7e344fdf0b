from __future__ import annotations

import pytest
from pydantic import ValidationError

from broker.simulation.model.demo.facts import DemoFacts, facts_from_texts

GRID = """
defaults: {kind: unified, cores: 8, slots: 800, ram_mb: 16000, min_ram_mb: 0, max_walltime_h: 96, min_walltime_h: 0,
           scratch_gb: 100, corepower: 10, status: online, pledged_cores: 100, connectivity: full, direct_lan: true}
sites: {pic: {tier: 1, cloud: ES, nucleus: true, endpoint: PIC}, NERSC: {tier: 2, cloud: US, storage: false}}
queues: {pic: {site: pic}, NERSC: {site: NERSC, storage: pic, cores: 64}}
"""
POLICY = """
links: [[pic, NERSC, ~, 3, 10, ~, 10]]
shares: {MC: {percent: 100}}
resource_types: {SCORE: {cores: [1, 1], ram_mb_per_core: [~, 2000]}}
work_queues: []
gdpconfig: [[core, WORK_SHORTAGE, boolean, 'false']]
"""
TASKS = """
kinds: {simul: {processing: simul, share: MC, transform: Sim_tf.py, cores: 8, ram_mb: 1000, hs06s_per_event: 500,
                events_per_file: 1000, output_kb_per_event: 900, files_per_job: 2}}
tasks: [{name: a, kind: simul, nucleus: pic, jobs: 10, priority: 500}, {name: b, kind: simul, nucleus: pic, jobs: 1,
         priority: 1, cores: 1, files_per_job: ~}]
"""


def facts() -> DemoFacts:
    return facts_from_texts([GRID, POLICY, TASKS])


def test_a_queue_takes_the_defaults_it_does_not_override() -> None:
    queues = facts().queues
    assert (queues["pic"].cores, queues["pic"].ram_mb) == (8, 16000)
    assert (queues["NERSC"].cores, queues["NERSC"].ram_mb) == (64, 16000)


def test_a_task_takes_the_figures_of_its_kind() -> None:
    first, second = facts().tasks
    assert (first.cores, first.files_a_job) == (8, 2)
    assert (second.cores, second.files_a_job) == (1, 1)


def test_a_queue_without_storage_uses_the_named_site() -> None:
    assert facts().storage_site("NERSC") == "pic"
    assert facts().storage_site("pic") == "pic"


def test_endpoints_are_named_after_the_prefix_or_the_site() -> None:
    assert facts().endpoint("pic") == "PIC_DATADISK"
    assert facts().endpoint("NERSC", "DATATAPE") == "NERSC_DATATAPE"


def test_the_order_of_the_files_does_not_matter() -> None:
    assert facts_from_texts([TASKS, POLICY, GRID]) == facts()


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ([GRID, GRID], "two files"),
        (["- a", GRID], "not a mapping"),
        ([GRID.replace("{site: pic}", "[]"), POLICY, TASKS], "expected a mapping"),
        ([GRID.replace("{site: pic}", "~"), POLICY, TASKS], "expected a mapping"),
    ],
)
def test_files_that_do_not_fit_together_are_refused(texts: list[str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        facts_from_texts(texts)


@pytest.mark.parametrize(
    ("old", "new", "field"),
    [
        ("status: online", "status: online, colour: red", "queues.pic.colour"),
        ("corepower: 10", "corepower: strong", "queues.pic.corepower"),
        ("kind: unified", "kind: huge", "queues.pic.kind"),
        ("tier: 1,", "", "sites.pic.tier"),
    ],
)
def test_a_wrong_fact_names_its_field(old: str, new: str, field: str) -> None:
    with pytest.raises(ValidationError, match=field):
        facts_from_texts([GRID.replace(old, new), POLICY, TASKS])
