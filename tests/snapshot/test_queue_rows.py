"""One CRIC queue: defaults, look-ups, and faults."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given, strategies as st

from broker.domain.queues import BARE_ALLOW, BARE_NONE, BARE_ONLY
from broker.snapshot.queue_rows import DEFAULT_MAXWDIR_MB, QueueRecord, read_queue
from broker.snapshot.raw import BadValueError


def record(**data: Any) -> QueueRecord:
    return read_queue("Q", json.dumps(data))


def test_an_empty_document_gives_the_defaults() -> None:
    queue = record()
    assert queue.name == "Q"
    assert (queue.type, queue.cloud, queue.status, queue.capability) == ("production", "", None, None)
    zero = (queue.cores, queue.corepower, queue.mintime_s, queue.pledgedcpu, queue.transferringlimit, queue.maxwdir_mb)
    assert zero == (0.0,) * 6
    unset = (queue.maxrss_mb, queue.minrss_mb, queue.maxtime_s, queue.maxdiskio_kbps, queue.maxinputsize_mb)
    assert all(math.isnan(value) for value in (*unset, queue.max_io_intensity, queue.job_chunk_size))
    assert (queue.releases, queue.faults, queue.bare_nucleus) == ((), (), BARE_NONE)
    assert not (queue.direct_access_lan or queue.direct_access_wan or queue.is_cvmfs or queue.use_jumbo)


@pytest.mark.parametrize("nickname", [None, ""])
def test_the_name_of_the_row_replaces_a_missing_nickname(nickname: str | None) -> None:
    assert record(nickname=nickname).name == "Q"
    assert record(nickname="OTHER").name == "OTHER"


@pytest.mark.parametrize(
    "key", ["corecount", "corepower", "mintime", "pledgedcpu", "transferringlimit", "maxdiskio", "maxinputsize"]
)
@pytest.mark.parametrize("value", ["many", True, [], {}, "nan"])
def test_an_invalid_limit_takes_its_default_and_is_reported(key: str, value: Any) -> None:
    queue = record(**{key: value})
    assert [fault.split(":")[0] for fault in queue.faults] == [key]
    # compared by their texts: NULL is NaN, which equals nothing
    expected = QueueRecord(**{**vars(record()), "faults": queue.faults})
    assert repr(queue) == repr(expected)


@pytest.mark.parametrize("key", ["maxrss", "minrss", "maxtime"])
@pytest.mark.parametrize(("value", "code"), [("many", "wrong_type"), (True, "wrong_type"), ("inf", "not_finite")])
def test_an_invalid_limit_without_a_default_makes_the_queue_unusable(key: str, value: Any, code: str) -> None:
    with pytest.raises(BadValueError) as caught:
        record(**{key: value})
    assert (caught.value.code, caught.value.field) == (code, key)


@pytest.mark.parametrize("key", ["status", "type", "cloud", "capability", "fairsharepolicy", "wnconnectivity"])
def test_an_invalid_text_makes_the_queue_unusable(key: str) -> None:
    for value, code in ((5, "wrong_type"), ("a\0b", "not_text"), ("\udfff", "not_text")):
        with pytest.raises(BadValueError) as caught:
            record(**{key: value})
        assert caught.value.code == code


def test_numbers_as_texts() -> None:
    queue = record(corecount="8", maxrss="16000", maxtime="", mintime="60")
    assert (queue.cores, queue.maxrss_mb, queue.mintime_s) == (8.0, 16000.0, 60.0)
    assert math.isnan(queue.maxtime_s)


@pytest.mark.parametrize(
    ("maxwdir", "maxinputsize", "limit_mb", "faults"),
    [
        (20000, None, 20000, 0),
        ("20000", None, 20000, 0),
        (0, 5000, 0, 0),
        (None, 5000, 0, 0),
        ("", 5000, 0, 0),
        ("big", 5000, 7000, 1),
        ("big", "5000", 7000, 1),
        ("big", 0, 0, 1),
        ("big", None, 0, 1),
        ("big", -1, 1999, 1),
        ("big", "huge", DEFAULT_MAXWDIR_MB, 2),
        (True, None, 0, 1),
    ],
)
def test_scratch_limit(maxwdir: Any, maxinputsize: Any, limit_mb: float, faults: int) -> None:
    queue = record(maxwdir=maxwdir, maxinputsize=maxinputsize)
    assert queue.maxwdir_mb == limit_mb
    assert len(queue.faults) == faults


@pytest.mark.parametrize(
    ("catchall", "params", "cores", "factor"),
    [
        ("per_core_attr", None, 8, 8),
        ("a,per_core_attr=1", None, 8, 8),
        ("per_core_attr", None, 0, 1),
        ("per_core_attr", None, None, 1),
        ("", {"per_core_attr": True}, 8, 1),  # params are parsed too late for this setting
        ("", None, 8, 1),
    ],
)
def test_limits_per_core(catchall: str, params: Any, cores: int | None, factor: int) -> None:
    queue = record(catchall=catchall, params=params, corecount=cores, maxrss=2000, minrss=100, maxwdir=3000)
    assert (queue.maxrss_mb, queue.minrss_mb, queue.maxwdir_mb) == (2000 * factor, 100 * factor, 3000 * factor)


@pytest.mark.parametrize(
    ("text", "connectivity", "stack"),
    [
        (None, None, None),
        ("", None, None),
        ("full", "full", None),
        ("full#", "full", None),
        ("full#IPv6", "full", "IPv6"),
        ("#IPv4", None, "IPv4"),
        ("#", None, None),
        ("http#IPv4#IPv6", "http", None),
        ("none", "none", None),
    ],
)
def test_connectivity(text: str | None, connectivity: str | None, stack: str | None) -> None:
    queue = record(wnconnectivity=text)
    assert (queue.connectivity, queue.ip_stack) == (connectivity, stack)


@pytest.mark.parametrize(
    ("value", "releases", "faults"),
    [
        (None, (), 0),
        (["AUTO"], ("AUTO",), 0),
        ("ANY", ("ANY",), 0),
        ("21.0|22.0|", ("21.0", "22.0"), 0),
        ("", (), 0),
        ([1], (), 1),
        ({"AUTO": 1}, (), 1),
        (7, (), 1),
    ],
)
def test_releases(value: Any, releases: tuple[str, ...], faults: int) -> None:
    queue = record(releases=value)
    assert (queue.releases, len(queue.faults)) == (releases, faults)


@pytest.mark.parametrize(
    ("kind", "catchall", "production", "analysis"),
    [
        ("production", "", True, False),
        (None, "", True, False),
        ("analysis", "", False, True),
        ("unified", "", True, True),
        ("special", "", False, False),
        ("analysis", "grandly_unified", True, True),
        ("special", "grandly_unified=x", True, True),
    ],
)
def test_kinds_of_jobs_that_a_queue_runs(kind: str | None, catchall: str, production: bool, analysis: bool) -> None:
    queue = record(type=kind, catchall=catchall)
    assert (queue.runs_production, queue.runs_analysis) == (production, analysis)


@pytest.mark.parametrize("value", [1, "true", "True", None, [True], False])
def test_direct_access_must_be_true(value: Any) -> None:
    assert not record(direct_access_lan=value, direct_access_wan=value).direct_access_lan
    assert record(direct_access_lan=True).direct_access_lan


@pytest.mark.parametrize(
    ("catchall", "params", "bare"),
    [
        ("bareNucleus=only", None, BARE_ONLY),
        ("bareNucleus=allow", None, BARE_ALLOW),
        ("bareNucleus=never", None, BARE_NONE),
        ("bareNucleus", None, BARE_NONE),
        ("bareNucleus=only", {"bareNucleus": "allow"}, BARE_ALLOW),
        ("", {"bareNucleus": ["only"]}, BARE_NONE),
    ],
)
def test_bare_nucleus(catchall: str, params: Any, bare: int) -> None:
    assert record(catchall=catchall, params=params).bare_nucleus == bare


def test_settings_in_catchall_and_params() -> None:
    queue = record(
        catchall="useJumboJobs,minEventsForJumbo=100,secondaryNucleus=CERN,jobChunkSize=x,max_io_intensity=3",
        params={"max_io_intensity": 500, "use_only_local_data": False},
    )
    assert (queue.use_jumbo, queue.min_events_for_jumbo, queue.secondary_nucleus) == (True, 100.0, "CERN")
    assert queue.use_only_local_data  # presence is enough
    assert queue.max_io_intensity == 500.0
    assert math.isnan(queue.job_chunk_size)
    assert [fault.split(":")[0] for fault in queue.faults] == ["jobChunkSize"]
    # this setting is looked up in params only
    assert math.isnan(record(catchall="max_io_intensity=3").max_io_intensity)


def test_params_of_a_wrong_type_are_ignored() -> None:
    queue = record(params=["gpu"], catchall="useJumboJobs")
    assert (queue.faults, queue.use_jumbo) == (("params: wrong_type",), True)


@pytest.mark.parametrize(
    ("cloud", "expected"), [("CERN,US", "CERN"), (" US ", "US"), ("", ""), (None, ""), (",US", "")]
)
def test_the_first_cloud(cloud: str | None, expected: str) -> None:
    assert record(cloud=cloud).cloud == expected


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
KEYS = st.sampled_from([*QueueRecord.__dataclass_fields__, "corecount", "maxrss", "maxwdir", "maxtime", "params"])
KEYS |= st.sampled_from(["catchall", "nickname", "releases", "wnconnectivity", "direct_access_lan", "maxinputsize"])


@pytest.mark.slow
@given(st.dictionaries(KEYS, JSON, max_size=6))
def test_any_document_gives_a_queue_or_a_bad_value(document: dict[str, Any]) -> None:
    try:
        queue = read_queue("Q", json.dumps(document))
    except BadValueError as error:
        assert error.code
        return
    assert queue.name
    assert math.isfinite(queue.cores)
    assert not math.isinf(queue.maxrss_mb)
