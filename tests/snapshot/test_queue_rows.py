"""One CRIC queue: defaults, look-ups, and what is wrong."""

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


def test_everything_missing() -> None:
    found = record()
    assert found.name == "Q"
    assert (found.type, found.cloud, found.status, found.capability) == ("production", "", None, None)
    zero = (found.cores, found.corepower, found.mintime_s, found.pledgedcpu, found.transferringlimit, found.maxwdir_mb)
    assert zero == (0.0,) * 6
    unset = (found.maxrss_mb, found.minrss_mb, found.maxtime_s, found.maxdiskio_kbps, found.maxinputsize_mb)
    assert all(math.isnan(value) for value in (*unset, found.max_io_intensity, found.job_chunk_size))
    assert (found.releases, found.faults, found.bare_nucleus) == ((), (), BARE_NONE)
    assert not (found.direct_access_lan or found.direct_access_wan or found.is_cvmfs or found.use_jumbo)


@pytest.mark.parametrize("nickname", [None, ""])
def test_the_name_of_the_row_stands_in_for_a_missing_nickname(nickname: str | None) -> None:
    assert record(nickname=nickname).name == "Q"
    assert record(nickname="OTHER").name == "OTHER"


@pytest.mark.parametrize(
    "key", ["corecount", "corepower", "mintime", "pledgedcpu", "transferringlimit", "maxdiskio", "maxinputsize"]
)
@pytest.mark.parametrize("value", ["many", True, [], {}, "nan"])
def test_a_limit_with_a_default_takes_it_and_says_so(key: str, value: Any) -> None:
    found = record(**{key: value})
    assert [fault.split(":")[0] for fault in found.faults] == [key]
    # by their texts: NULL is NaN, which equals nothing
    expected = QueueRecord(**{**vars(record()), "faults": found.faults})
    assert repr(found) == repr(expected) or key in ("maxdiskio", "maxinputsize")


@pytest.mark.parametrize("key", ["maxrss", "minrss", "maxtime"])
@pytest.mark.parametrize(("value", "code"), [("many", "wrong_type"), (True, "wrong_type"), ("inf", "not_finite")])
def test_a_limit_without_a_default_spoils_the_queue(key: str, value: Any, code: str) -> None:
    with pytest.raises(BadValueError) as caught:
        record(**{key: value})
    assert (caught.value.code, caught.value.field) == (code, key)


@pytest.mark.parametrize("key", ["status", "type", "cloud", "capability", "fairsharepolicy", "wnconnectivity"])
def test_a_text_that_is_none_spoils_the_queue(key: str) -> None:
    for value, code in ((5, "wrong_type"), ("a\0b", "not_text"), ("\udfff", "not_text")):
        with pytest.raises(BadValueError) as caught:
            record(**{key: value})
        assert caught.value.code == code


def test_numbers_as_texts() -> None:
    found = record(corecount="8", maxrss="16000", maxtime="", mintime="60")
    assert (found.cores, found.maxrss_mb, found.mintime_s) == (8.0, 16000.0, 60.0)
    assert math.isnan(found.maxtime_s)


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
def test_scratch(maxwdir: Any, maxinputsize: Any, limit_mb: float, faults: int) -> None:
    found = record(maxwdir=maxwdir, maxinputsize=maxinputsize)
    assert found.maxwdir_mb == limit_mb
    assert len(found.faults) == faults


@pytest.mark.parametrize(
    ("catchall", "params", "cores", "factor"),
    [
        ("per_core_attr", None, 8, 8),
        ("a,per_core_attr=1", None, 8, 8),
        ("per_core_attr", None, 0, 1),
        ("per_core_attr", None, None, 1),
        ("", {"per_core_attr": True}, 8, 1),  # params are read too late for it
        ("", None, 8, 1),
    ],
)
def test_limits_by_core(catchall: str, params: Any, cores: int | None, factor: int) -> None:
    found = record(catchall=catchall, params=params, corecount=cores, maxrss=2000, minrss=100, maxwdir=3000)
    assert (found.maxrss_mb, found.minrss_mb, found.maxwdir_mb) == (2000 * factor, 100 * factor, 3000 * factor)


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
    found = record(wnconnectivity=text)
    assert (found.connectivity, found.ip_stack) == (connectivity, stack)


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
    found = record(releases=value)
    assert (found.releases, len(found.faults)) == (releases, faults)


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
def test_what_runs(kind: str | None, catchall: str, production: bool, analysis: bool) -> None:
    found = record(type=kind, catchall=catchall)
    assert (found.runs_production, found.runs_analysis) == (production, analysis)


@pytest.mark.parametrize("value", [1, "true", "True", None, [True], False])
def test_direct_access_must_be_the_truth_itself(value: Any) -> None:
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


def test_settings_of_the_free_form() -> None:
    found = record(
        catchall="useJumboJobs,minEventsForJumbo=100,secondaryNucleus=CERN,jobChunkSize=x,max_io_intensity=3",
        params={"max_io_intensity": 500, "use_only_local_data": False},
    )
    assert (found.use_jumbo, found.min_events_for_jumbo, found.secondary_nucleus) == (True, 100.0, "CERN")
    assert found.use_only_local_data  # being there is enough
    assert found.max_io_intensity == 500.0
    assert math.isnan(found.job_chunk_size)
    assert [fault.split(":")[0] for fault in found.faults] == ["jobChunkSize"]
    # this one is looked up in params only
    assert math.isnan(record(catchall="max_io_intensity=3").max_io_intensity)


def test_params_of_another_type_are_none() -> None:
    found = record(params=["gpu"], catchall="useJumboJobs")
    assert (found.faults, found.use_jumbo) == (("params: wrong_type",), True)


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
def test_any_document_is_a_queue_or_a_bad_value(document: dict[str, Any]) -> None:
    try:
        found = read_queue("Q", json.dumps(document))
    except BadValueError as bad:
        assert bad.code
        return
    assert found.name
    assert math.isfinite(found.cores)
    assert not math.isinf(found.maxrss_mb)
