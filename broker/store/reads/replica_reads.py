"""Reading the replica catalogue for the input datasets of a cycle: replicas, containers, metadata, and single files.

Everything is read for all datasets at once, in the caller's transaction.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import numpy as np
import sqlalchemy as sa

from broker.domain.arrays import Ints, floats, texts
from broker.domain.work import DroppedRow
from broker.store.connection.array_transfer import array_of, array_of_texts
from broker.store.connection.panda_columns import PandaColumns
from broker.store.connection.tables import Names, TableCatalogue
from broker.store.reads.replica_requests import unanswered
from broker.work.catalogue import VIRTUAL_PLACEMENT, Catalogue, Did, ReplicaRows
from broker.work.locality import NamedFiles, RankLimits
from broker.work.tasks import DatasetTable, TaskTable

ENDPOINT_ROWS = PandaColumns("ddm_endpoint", ("ddm_endpoint_name", "is_tape"))
RANKED_ROWS = PandaColumns("jedi_dataset_contents", ("jeditaskid", "datasetid", "fileid"))
NAMED_ROWS = PandaColumns("jedi_dataset_contents", ("jeditaskid", "datasetid", "fileid", "lfn", "scope", "status"))
#: The requested DIDs, each with and without the ``/`` of a container, so that a join by equality uses the index.
_FROM_DIDS = """
    FROM unnest(CAST(:positions AS bigint[]), CAST(:scopes AS text[]), CAST(:names AS text[]))
         AS a (position, scope, name)
"""


def did_parameters(dids: Sequence[Did]) -> dict[str, str]:
    """The query parameters for the requested DIDs, each with and without the ``/`` of a container."""
    names = [name for _, name in dids]
    return {
        "positions": array_of(2 * list(range(len(dids)))),
        "scopes": array_of_texts(2 * [scope for scope, _ in dids]),
        "names": array_of_texts(names + [f"{name}/" for name in names]),
    }


def read_catalogue(connection: sa.Connection, catalogue: TableCatalogue, dids: tuple[Did, ...]) -> Catalogue:
    """The replica catalogue's data about ``dids``; constituents of containers are appended to them.

    Names are looked up with and without the ``/`` of a container. Whether a replica is on tape is taken from the
    record of the endpoint, else from the row of the replica.
    """
    all_dids = list(dids)
    parts = _read_parts(connection, catalogue.names, all_dids)
    values = did_parameters(all_dids)
    metadata = _read_metadata(connection, catalogue.names, values)
    groupings = {position: rules for position, (rules, _) in metadata.items()}
    lengths = {position: length for position, (_, length) in metadata.items() if length is not None}
    replicas, dropped_rows = _read_replicas(connection, catalogue, values)
    return Catalogue(
        tuple(all_dids), replicas, groupings, lengths, parts, unanswered(connection, all_dids), dropped_rows
    )


def _read_parts(connection: sa.Connection, names: Names, dids: list[Did]) -> dict[int, tuple[int, ...]]:
    """Constituents by container; DIDs that are not in ``dids`` are appended to it."""
    query = (
        f"SELECT a.position, c.child_scope, c.child_name {_FROM_DIDS} "
        f"JOIN {names.own('container_contents')} AS c ON c.scope = a.scope AND c.name = a.name "
        "ORDER BY a.position, c.child_scope, c.child_name"
    )
    position = {did: index for index, did in enumerate(dids)}
    parts: dict[int, list[int]] = {}
    for container, scope, name in connection.execute(sa.text(query), did_parameters(dids)).all():
        did = (str(scope), str(name))
        if did not in position:
            position[did] = len(dids)
            dids.append(did)
        parts.setdefault(int(container), []).append(position[did])
    return {container: tuple(dict.fromkeys(members)) for container, members in parts.items()}


def _read_metadata(
    connection: sa.Connection, names: Names, values: Mapping[str, str]
) -> dict[int, tuple[tuple[str, ...], float | None]]:
    """Groupings of rules, and lengths, by position of the DID."""
    # few distinct groupings occur: read as text, each is parsed only once
    query = (
        f"SELECT a.position, CAST(m.rule_groupings AS text), m.length {_FROM_DIDS} "
        f"JOIN {names.own('dataset_metadata')} AS m ON m.scope = a.scope AND m.name = a.name"
    )
    rows = connection.execute(sa.text(query), values).all()
    groupings = {rules: _groupings(rules) for rules in {row[1] for row in rows}}
    return {position: (groupings[rules], None if length is None else float(length)) for position, rules, length in rows}


def _groupings(rules: str | None) -> tuple[str, ...]:
    document = None if rules is None else json.loads(rules)
    return tuple(str(rule) for rule in document) if isinstance(document, list) else ()


def _read_replicas(
    connection: sa.Connection, catalogue: TableCatalogue, values: Mapping[str, str]
) -> tuple[ReplicaRows, tuple[DroppedRow, ...]]:
    """The replicas of datasets; rows of containers, which have no replicas of their own, are dropped."""
    endpoints = catalogue.needed(ENDPOINT_ROWS)
    query = (
        "SELECT a.position, r.rse, coalesce(nullif(upper(e.is_tape::text), '') = 'Y', r.is_tape, false), "
        "coalesce(r.state = :virtual, false), r.available_files, r.total_files, r.scope, r.name "
        f"{_FROM_DIDS} JOIN {catalogue.names.own('dataset_replicas')} AS r "
        "ON r.scope = a.scope AND r.name = a.name "
        f"LEFT JOIN {endpoints} AS e ON e.ddm_endpoint_name = r.rse ORDER BY a.position, r.rse"
    )
    rows = connection.execute(sa.text(query), {**values, "virtual": VIRTUAL_PLACEMENT}).all()
    refused = [row for row in rows if row.name.endswith("/")]
    used = [row[:6] for row in rows if not row.name.endswith("/")] if refused else [row[:6] for row in rows]
    did, rse, is_tape, is_vp, available, total = zip(*used, strict=True) if used else [()] * 6
    replicas = ReplicaRows(
        np.array(did, dtype=np.int64),
        texts(rse),
        np.array(is_tape, dtype=np.bool_),
        np.array(is_vp, dtype=np.bool_),
        floats(available),
        floats(total),
    )
    what = "a replica of a container: its constituents have replicas"
    return replicas, tuple(
        DroppedRow("dataset_replicas", f"{row.scope}:{row.name} at {row.rse}", "container_replica", what)
        for row in refused
    )


def read_rank_limits(
    connection: sa.Connection,
    catalogue: TableCatalogue,
    tasks: TaskTable,
    datasets: DatasetTable,
    wanted: list[tuple[int, int]],
) -> RankLimits:
    """The id of the ``k``-th file (in any status) of each dataset, for the pairs (dataset, k) in ``wanted``.

    For a dataset with fewer files it is the last one: all of its files are among the first ``k``.
    """
    if not wanted:
        return {}
    source = catalogue.needed(RANKED_ROWS)
    query = f"""
        SELECT w.position - 1, (
            SELECT max(fileid) FROM (
                SELECT c.fileid FROM {source} AS c
                WHERE c.jeditaskid = w.jeditaskid AND c.datasetid = w.datasetid ORDER BY c.fileid LIMIT w.k
            ) AS first_files
        )
        FROM unnest(CAST(:tasks AS bigint[]), CAST(:datasets AS bigint[]), CAST(:counts AS bigint[]))
             WITH ORDINALITY AS w (jeditaskid, datasetid, k, position)
    """  # noqa: S608
    position = np.array([dataset for dataset, _ in wanted], dtype=np.int64)
    values = {
        "tasks": array_of(tasks.jeditaskid[datasets.task[position]].tolist()),
        "datasets": array_of(datasets.datasetid[position].tolist()),
        "counts": array_of(count for _, count in wanted),
    }
    rows = connection.execute(sa.text(query), values).all()
    return {wanted[int(index)]: int(last) for index, last in rows if last is not None}


def read_named_files(
    connection: sa.Connection,
    catalogue: TableCatalogue,
    tasks: TaskTable,
    datasets: DatasetTable,
    wanted: Ints,
    statuses: tuple[str, ...] = ("ready",),
) -> NamedFiles:
    """Files of the datasets ``wanted`` that the catalogue lists individually, with their endpoints.

    ``statuses`` are those of the files; alongside PanDA the files of a chunk have been claimed already.
    """
    own = catalogue.names.own("file_replicas")
    if not len(wanted) or connection.execute(sa.text(f"SELECT 1 FROM {own} LIMIT 1")).first() is None:  # noqa: S608
        return {}
    source = catalogue.needed(NAMED_ROWS)
    query = f"""
        SELECT w.dataset, c.fileid, array_agg(r.rse)
        FROM unnest(CAST(:positions AS bigint[]), CAST(:tasks AS bigint[]), CAST(:datasets AS bigint[]))
             AS w (dataset, jeditaskid, datasetid)
        JOIN {source} AS c ON c.jeditaskid = w.jeditaskid AND c.datasetid = w.datasetid AND c.status = ANY(:statuses)
        JOIN {own} AS r ON r.name = c.lfn AND r.scope = c.scope
        GROUP BY w.dataset, c.fileid
    """  # noqa: S608
    values = {
        "statuses": list(statuses),
        "positions": array_of(wanted.tolist()),
        "tasks": array_of(tasks.jeditaskid[datasets.task[wanted]].tolist()),
        "datasets": array_of(datasets.datasetid[wanted].tolist()),
    }
    named: NamedFiles = {}
    for dataset, fileid, endpoints in connection.execute(sa.text(query), values):
        named.setdefault(int(dataset), {})[int(fileid)] = frozenset(endpoints)
    return named
