from __future__ import annotations

import numpy as np

from broker.work.assemble import CycleWork, assemble, settings_of
from broker.work.chunks import ChunkTable
from broker.work.input_files import DatasetUse
from broker.work.job_model import CutLimits
from broker.work.tasks import split_rules_of
from tests.work.files_for_tests import MB, dataset_table, one_chunk, plain_files, task_table

TASK = {
    "jeditaskid": 5,
    "vo": "atlas",
    "currentpriority": 700,
    "ramcount": 2000,
    "cputime": 90,
    "cputimeunit": "HS06sPerEvent",
    "cpuefficiency": 90,
    "basewalltime": 60,
    "outdiskcount": 1,
    "outdiskunit": "MBPerEvent",
    "workdiskcount": 1,
    "workdiskunit": "GB",
    "eventservice": 0,
}
RULE = "NF=2,TW=-1,IS=1,FU=2,IP=2,IK=6,IL=1,IW=1,CC=16,DY=5,MX=9,EC=4,XA=7,UC=1,OT=1,MO=1"


def work_of(rule: str | None, **task: object) -> CycleWork:
    tasks = task_table([{**TASK, "splitrule": rule, **task}])
    zero, flag = np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.bool_)
    chunks = ChunkTable(zero, zero, np.array([4000.0]), flag, flag, flag)
    datasets = dataset_table([{"datasetid": 77, "site": "Q", "creationtime": 1.0, "modificationtime": 2.0}])
    inputs = one_chunk((plain_files(5, nevents=100, size=10 * MB), DatasetUse()))
    return assemble(tasks, datasets, split_rules_of(tasks), chunks, inputs, None)


def test_a_chunk_has_columns_of_its_task_dataset_and_files() -> None:
    table = work_of(RULE).work.chunks
    columns = (table.jeditaskid, table.datasetid, table.ramcount, table.task_ramcount, table.currentpriority)
    assert [column.tolist() for column in columns] == [[5], [77], [4000], [2000], [700]]
    assert (table.master_site.tolist(), table.master_modificationtime_s.tolist()) == (["Q"], [2.0])
    assert (table.n_files.tolist(), table.total_bytes.tolist(), table.atom_events.tolist()) == ([5], [50 * MB], [200])


def test_split_rule_columns() -> None:
    table = work_of(RULE).work.chunks
    assert [int(column[0]) for column in (table.t1weight, table.full_chain, table.ip_connectivity, table.ip_stack)] == [
        -1,
        2,
        2,
        6,
    ]
    flags = (
        table.input_prestaging,
        table.allow_input_wan,
        table.job_cloning,
        table.only_tags_for_fc,
        table.merge_output,
    )
    assert all(column.tolist() == [True] for column in flags)
    assert (table.es_attempts.tolist(), table.es_consumers.tolist(), table.use_local_io.tolist()) == ([7], [4], [False])


def test_retries_of_jobs_take_precedence_over_retries_of_events() -> None:
    assert work_of("XA=7,XJ=2").work.chunks.es_attempts.tolist() == [2]
    assert work_of(None).work.chunks.es_attempts.tolist() == [0]


def test_prestaging_may_be_switched_off() -> None:
    assert work_of("IS=0").work.chunks.input_prestaging.tolist() == [False]


def test_a_cutter_uses_the_task_and_its_rules() -> None:
    work = work_of("NF=2")
    jobs = work.cutter(0).cut(9, CutLimits(cores=1, corepower=10))
    assert jobs.events.tolist() == [200, 200, 100]
    assert jobs.walltime_s.tolist() == [60 + 2000, 60 + 2000, 60 + 1000]
    assert jobs.disk_mb.tolist() == [20 + 1500 + 1024, 20 + 1500 + 1024, 10 + 1500 + 1024]


def test_event_service_divides_the_work_among_consumers() -> None:
    assert work_of("EC=2,XJ=3", eventservice=1).model(0).multiplicity == 8
    assert work_of("EC=2,XJ=3,UC=1", eventservice=2).model(0).multiplicity == 1
    assert work_of(None, eventservice=1).model(0).multiplicity == 3


def test_defaults_of_the_model_for_missing_values() -> None:
    model = work_of(None, cputimeunit="s", walltime=30, basewalltime=None, outdiskcount=-5, workdiskcount=None).model(0)
    assert np.isnan(model.hs06s_per_event)
    assert (model.walltime_s_per_mb, model.base_walltime_s) == (30, 600)
    assert (model.out_bytes_per_event, model.out_bytes_per_mb, model.work_bytes) == (0, 0, 0)
    assert work_of(None, cputimeunit="mHS06sPerEvent").model(0).hs06s_per_event == 0.09


def test_equal_rules_share_their_settings() -> None:
    tasks = task_table([{"splitrule": "NF=2"}, {"splitrule": "NF=2"}])
    zero, flags = np.zeros(3), np.array([False, False, True])
    chunks = ChunkTable(np.array([0, 1, 1]), np.zeros(3, dtype=np.int64), zero, flags, ~flags, flags)
    first, second, merge = settings_of(chunks, split_rules_of(tasks))
    assert first is second
    assert merge.merging
