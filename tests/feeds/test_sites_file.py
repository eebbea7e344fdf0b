"""A sites file: its faults, reported together, and the rows it gives."""

from __future__ import annotations

import pytest
import yaml

from broker import resources
from broker.feeds.model.rows import MappedTable
from broker.feeds.model.sites_file.declared import Grid
from broker.feeds.model.sites_file.reading import SitesRefused, read_sites
from broker.feeds.model.sites_file.tables import Declared, declared_tables
from broker.pilots.model.pilot_demand import LIMITS

SITES = """\
defaults: {cores: 8, memory_mb: 16000}
sites:
  A:
    cloud: NORTH
    latitude: 60
    storage:
      A_DISK: {total_tb: 11, free_tb: 5.5}
      A_TAPE: {tape: true, closed: [write]}
    queues:
      A_CE:
        batch: {kind: htcondor-ce, address: "ce.example.org:9619"}
        walltime_h: 48
"""


def sentences(text: str | bytes) -> list[str]:
    with pytest.raises(SitesRefused) as refused:
        read_sites(text.encode() if isinstance(text, str) else text, "sites.yaml")
    return [entry.sentence for entry in refused.value.problems]


def tables(text: str) -> dict[str, MappedTable]:
    mapped_tables = declared_tables(read_sites(text.encode(), "sites.yaml"))
    assert [entry.table for entry in mapped_tables].count("ddm_endpoint") == 2
    return {entry.table + (".space" if "space_total" in entry.columns else ""): entry for entry in mapped_tables}


def test_the_shipped_example_is_valid_and_shows_every_field() -> None:
    text = resources.path("config/sites.yaml").read_text(encoding="utf-8")
    grid = read_sites(text.encode(), "sites.yaml")
    assert Declared.of(grid).queues == ("ALPHA_CE", "BETA_GPU", "BETA_SLURM", "GAMMA_CE")
    for model in (Grid, *(field.annotation for field in Grid.model_fields.values())):
        assert all(f"{name}:" in text for name in getattr(model, "model_fields", ()) if name != "cvmfs")


CASES = {
    "cores: 8,": {
        "cores: eight,": "line 1: defaults.cores: 'eight' is no whole number; write a whole number of cores, 1 to "
        "100000",
        "cores: 0,": "line 1: defaults.cores: 0 is less than 1; write a whole number of cores, 1 to 100000",
        "coers: 8,": "line 1: defaults.coers: is not known here; did you mean cores or containers?",
        "cores: 2.5,": "line 1: defaults.cores: 2.5 is no whole number; write a whole number of cores, 1 to 100000",
    },
    "cloud: NORTH": {
        "cloud: NO": "line 4: sites.A.cloud: False is no text; write a text of letters, digits, dots, hyphens and "
        "underscores, the first a letter or digit; put NO in quotes",
    },
    "latitude: 60": {
        "latitude: 90.1": "line 5: sites.A.latitude: 90.1 is more than 90.0; write degrees north, -90 to 90"
    },
    "free_tb: 5.5": {
        "free_tb: 11.1": "line 7: sites.A.storage.A_DISK.free_tb: 11.1 TB free of 11 TB; write at most total_tb",
    },
    ", free_tb: 5.5": {
        "": "line 7: sites.A.storage.A_DISK: free_tb is missing; write total_tb and free_tb, or leave out both",
    },
    "closed: [write]": {
        "closed: [wrote]": "line 8: sites.A.storage.A_TAPE.closed.0: 'wrote' is none of 'read' or 'write'; "
        "did you mean write?",
    },
    "kind: htcondor-ce": {
        "kind: htcondor_ce": "line 11: sites.A.queues.A_CE.batch.kind: 'htcondor_ce' is none of 'htcondor-ce', "
        "'arc-ce', 'htcondor', 'slurm', 'pbs', 'lsf', 'kubernetes' or 'fork'; did you mean htcondor-ce or htcondor?",
    },
    ', address: "ce.example.org:9619"': {
        "": "line 11: sites.A.queues.A_CE.batch.address: is missing; write host and port or URL of a CE, or the "
        "partition of a batch system",
    },
    "walltime_h: 48": {
        "walltime_h: 0": "line 12: sites.A.queues.A_CE.walltime_h: 0 is not more than 0.0; write hours, more than 0, "
        "at most 87600",
        "read: [B_DISK]": "line 12: sites.A.queues.A_CE.read.0: there is no endpoint B_DISK; did you mean A_DISK?",
        "write: [A_TAPE]": "line 12: sites.A.queues.A_CE.write.0: A_TAPE is tape, where jobs do not write; name a disk",
        "tags: [{project: P, release: 2.1, platform: x}]": "line 12: sites.A.queues.A_CE.tags.0.release: 2.1 is no "
        "text; write a text; put numbers in quotes",
    },
    "        walltime_h: 48\n": {
        "        pilots: {most_waiting: many}\n": "line 12: sites.A.queues.A_CE.pilots.most_waiting: 'many' is no "
        "whole number; write a whole number of pilots that may wait",
        "        pilots: {most_waiting: -1}\n": "line 12: sites.A.queues.A_CE.pilots.most_waiting: -1 is less than 0; "
        "write a whole number of pilots that may wait",
        "        pilots: {most_runing: 5}\n": "line 12: sites.A.queues.A_CE.pilots.most_runing: is not known here; did "
        "you mean most_waiting or most_new?",
        "        pilots: {most_waiting: 9, most_pilots: 8}\n": "line 12: sites.A.queues.A_CE.pilots.most_waiting: 9 "
        "pilots may wait, of 8 that may wait and run; write at most most_pilots",
    },
    "      A_CE:\n": {
        "      A CE:\n": "line 10: sites.A.queues.A CE: 'A CE' is no name; write letters, digits, dots, hyphens and "
        "underscores, the first a letter or digit",
        "      1:\n": "line 10: sites.A.queues.1: '1' is no name; put it in quotes",
    },
}


@pytest.mark.parametrize(
    ("right", "wrong", "sentence"), [(right, *pair) for right, pairs in CASES.items() for pair in pairs.items()]
)
def test_a_wrong_value_is_named_with_line_field_value_and_remedy(right: str, wrong: str, sentence: str) -> None:
    assert right in SITES
    assert sentences(SITES.replace(right, wrong)) == [sentence]


def test_all_faults_are_reported_together_in_the_order_of_their_lines() -> None:
    second_site = "  B: {queues: {A_CE: {batch: {kind: slurm, address: main}}}}\n"
    messages = sentences(SITES.replace("latitude: 60", "longitude: 200") + second_site)
    assert [line.split(":")[0] for line in messages] == ["line 5", "line 13", "line 13"]
    assert messages[1].endswith("queue A_CE is at site A too; give each its own name")
    assert messages[2].endswith("write storage of the site, or write: [ENDPOINT] of another one")


def test_a_duplicate_name_is_a_fault_although_yaml_keeps_the_last_one() -> None:
    assert sentences(SITES + "  A: {}\n") == ["line 13: sites.A: A stands twice, in lines 3 and 13; keep one of them"]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", "line 1: it holds no mapping"),
        (b"- 1\n", "line 1: it holds no mapping"),
        (b"sites: {}\n", "line 1: sites: has fewer than 1 entries"),
        (b"sites:\n  A: [\n", "line 3: no YAML"),
        (b"sites:\n\xff\n", "line 2: no UTF-8"),
        (b"a: &a [x,x,x,x,x,x,x,x,x,x]\n", "line 1: a: is not known here"),
        ("".join(f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 10)}]\n" if n else "a0: &a0 x\n" for n in range(9)).encode(),
         "line 1: it holds too much"),
        (b"a: &a [*a]\n", "line 1: it holds too much"),
        (b"sites: " + b"[" * 2000, "line 1: "),
    ],
)  # fmt: skip
def test_an_invalid_file_is_refused(data: bytes, expected: str) -> None:
    assert any(line.startswith(expected) for line in sentences(data))


def test_values_come_from_the_queue_or_the_file_or_our_defaults() -> None:
    ((data, listed_at),) = tables(SITES)["schedconfig_json"].rows.values()
    assert listed_at is None  # declared queues have no age
    expected = {
        "nickname": "A_CE",
        "atlas_site": "A",
        "cloud": "NORTH",
        "status": "online",
        "capability": "ucore",
        "corecount": 8,
        "maxrss": 16000,
        "maxtime": 48 * 3600,
        "maxwdir": 20_000,
        "latitude": 60.0,
        "queues": [{"ce_endpoint": "ce.example.org:9619", "ce_flavour": "HTCONDOR-CE", "ce_state": "ACTIVE"}],
    }
    assert {name: data[name] for name in expected} == expected
    assert data["astorages"]["read_lan"] == ["A_DISK", "A_TAPE"]
    assert data["astorages"]["write_lan"] == ["A_DISK"]


def test_a_site_without_a_cloud_is_its_own_cloud() -> None:
    ((data, _),) = tables(SITES.replace("    cloud: NORTH\n", ""))["schedconfig_json"].rows.values()
    assert data["cloud"] == "A"


def test_sites_with_a_disk_are_nuclei_unless_the_file_says_otherwise() -> None:
    def role(text: str) -> str:
        return str(tables(text)["site"].rows[("A",)][0])

    assert role(SITES) == "nucleus"
    assert role(SITES.replace("latitude: 60", "nucleus: false")) == "satellite"
    tape_only = SITES.replace("A_DISK: {", "A_DISK: {tape: true, ").replace("walltime_h: 48", "write: [B_DISK]")
    assert role(tape_only + "  B: {storage: {B_DISK: {}}}\n") == "satellite"


def test_space_is_in_gb_of_2_30_bytes_and_closed_endpoints_are_closed() -> None:
    tables_of_file = tables(SITES)
    assert tables_of_file["ddm_endpoint.space"].rows == {("A_DISK",): (10244, 5122, 5122, 0, 0, 0, None)}
    assert tables_of_file["ddm_endpoint"].rows[("A_DISK",)] == ("A", "A_DISK", "DATADISK", "N", "N", "N", "N", {})
    closed = {"write_lan": "OFF", "write_wan": "OFF"}
    assert tables_of_file["ddm_endpoint"].rows[("A_TAPE",)] == ("A", "A_TAPE", "DATATAPE", "Y", "Y", "Y", "N", closed)


def test_software_and_gpus_are_published_as_tags() -> None:
    settings = """\
        containers: false
        gpus: [{vendor: NVIDIA, model: A100}]
        gpu_jobs_only: true
        tags: [{project: P, release: "2.1", platform: x86_64-el9}]
"""
    ((data, _),) = tables(SITES + settings)["sw_tags"].rows.values()
    assert data["containers"] == []
    assert data["architectures"] == [{"type": "gpu", "vendor": ["nvidia", "excl"], "model": ["A100"]}]
    assert data["cmtconfigs"] == ["x86_64-el9"]
    assert tables(SITES)["sw_tags"].rows[("A_CE",)][0]["containers"] == ["any"]


def test_resource_types_may_be_added() -> None:
    text = SITES + "resource_types: {BIG: {cores: [2, null], memory_mb_per_core: [4001, null]}}\n"
    assert tables(text)["resource_types"].rows == {("BIG",): (2, None, 4001, None)}
    (message,) = sentences(text.replace("[2, null]", "[2, 1]"))
    assert message.endswith("BIG.cores: 2 is more than 1; write the smaller one first")


def test_names_missing_in_a_later_file_are_known_from_stored_names() -> None:
    before = Declared.of(read_sites(SITES.encode(), "x"))
    assert Declared.from_json(before.as_json()) == before
    renamed = yaml.safe_load(SITES)
    renamed["sites"]["A"]["queues"]["NEW"] = renamed["sites"]["A"]["queues"].pop("A_CE")
    after = Declared.of(read_sites(yaml.safe_dump(renamed).encode(), "x"))
    assert before.without(after) == Declared(queues=("A_CE",))
    assert Declared.from_json(None) == Declared()


@pytest.mark.parametrize(
    ("of_queue", "of_file", "expected"),
    [
        ("{}", "{}", {}),
        ("{most_waiting: 0}", "{}", {"nQueueLimitWorker": 0}),
        ("{}", "{most_new: 3}", {"maxNewWorkersPerCycle": 3}),
        ("{most_pilots: 8, most_waiting: 8}", "{most_pilots: 9}", {"maxWorkers": 8, "nQueueLimitWorker": 8}),
        ("{most_pilots: 8}", "{most_new: 3}", {"maxWorkers": 8, "maxNewWorkersPerCycle": 3}),
    ],
)
def test_limits_of_pilots_come_from_the_queue_or_the_file(
    of_queue: str, of_file: str, expected: dict[str, int]
) -> None:
    text = SITES.replace("memory_mb: 16000", f"memory_mb: 16000, pilots: {of_file}") + f"        pilots: {of_queue}\n"
    ((data, _),) = tables(text)["schedconfig_json"].rows.values()
    assert data["params"] == {"unified_dispatch": True, **expected}
    assert set(expected) <= set(LIMITS), "the agents read them"
