"""The catalogue file and the checks that it makes."""

from __future__ import annotations

import math
import pickle

import pytest

from broker.gdpconfig.catalogue import (
    Catalogue,
    CatalogueError,
    KeyEntry,
    Kind,
    UnknownKeyError,
    ValueRefusedError,
    parse_catalogue,
)
from broker.gdpconfig.shipped import shipped_catalogue

DEFAULTS_IN_PANDA = {
    "DISK_THRESHOLD": 100,
    "FREE_DISK_CUTOFF": 1000,
    "INPUT_SIZE_THRESHOLD": 1,
    "INPUT_SIZE_FRACTION": 10,
    "INPUT_NUM_THRESHOLD": 100,
    "INPUT_NUM_FRACTION": 10,
    "MIN_IO_INTENSITY_WITH_LOCAL_DATA": 200,
    "MIN_INPUT_SIZE_WITH_LOCAL_DATA": 10000,
    "MAX_TASK_PRIO_WITH_LOCAL_DATA": 800,
    "DATA_LOCATION_CHECK_PERIOD": 7,
    "NQUEUED_NUC_CAP": 2000,
    "NQUEUED_NUC_CAP_FOR_JOBS": 10000,
    "NQUEUED_SAT_CAP": 150,
    "NW_ACTIVE": True,  # on here: the specification applies the network weight always
    "NW_QUEUE_IMPORTANCE": 0.5,
    "NW_THRESHOLD": 1.7,
    "NW_WEIGHT_MULTIPLIER": 1,
    "IO_INTENSITY_CUTOFF": 200,
    "SIZE_CUTOFF_TO_MOVE_INPUT": 10,
    "NUM_CUTOFF_TO_MOVE_INPUT": 100,
    "MAX_DISKIO_DEFAULT": 10**10,
    "MAX_PRIO_TO_BOOTSTRAP": 150,
    "NQUEUELIMITSITE": 20,
    "STORAGE_MIN_FREE_SIZE": 200,
    "MAX_MISSING_INPUT_FILES": 10,
    "MIN_INPUT_COMPLETENESS": 90,
    "MIN_WEIGHT": 0,
    "WORK_SHORTAGE": False,
    "PENDING_TIMEOUT": 168,
    "MERGE_JOB_MAX_WALLTIME": math.inf,
}
DEFAULTS_OF_OUR_OWN = {
    "FEATURES_COREPOWER": False,
    "FEATURES_MAXTIME": False,
    "FEATURES_MAXRSS": False,
    "FEATURES_MAXWDIR": False,
    "FEATURES_DRAINING": True,
}
DEFAULTS_OF_TIMEOUTS = {
    "TIMEOUT_pending": 1,
    "TIMEOUT_defined": 4,
    "TIMEOUT_assigned": 12,
    "TIMEOUT_throttled": 168,
    "TIMEOUT_activated": 48,
    "TIMEOUT_starting": 48,
    "TIMEOUT_inactive": 4,
    "TIMEOUT_laststart": 2,
    "TIMEOUT_sent": 0.5,
    "TIMEOUT_running": 504,
    "TIMEOUT_holding": 48,
    "TIMEOUT_holding_high": 3,
    "TRANSTIMEHI": 2,
    "TRANSTIMELO": 6,
    "TIMEOUT_HIGH_PRIORITY": 800,
    "HEARTBEAT_TIMEOUT": 2,
    "REASSIGN_MEMORY": 6,
    "ANALY_TIMEOUT": 12,
    "ANALY_ACTIVITY": 3,
    "ANALY_LEAST_WAIT": 3,
    "FAST_REBRO_THRESHOLD_NQNR_RATIO": 3,
    "FAST_REBRO_THRESHOLD_NQUEUE_FRAC": 0.3,
    "FAST_REBRO_THRESHOLD_NQUEUE": math.inf,
    "FAST_REBRO_MAX_MOVES": 1,
}


#: Of the analysis brokerage; a cap of 0 is none.
DEFAULTS_OF_ANALYSIS = {
    "IO_INTENSITY_CUTOFF_USER": 0,
    "DATA_CHECK_TIMEOUT_USER": 0,
    "MAX_MISSING_INPUT_FILES_USER": 10,
    "MIN_INPUT_COMPLETENESS_USER": 90,
    "OVERLOAD_MIN_QUEUE": 20,
    "OVERLOAD_RATIO_OFFSET": 1.2,
    "STORAGE_MIN_FREE_SIZE_OUTPUT": 200,
    "TW_DONE_JOB_STAT": 6,
    "MIN_BAD_JOBS_TO_SKIP_PQ": 5,
    "BASE_QUEUE_LENGTH_PER_PQ": 100,
    "BASE_EXPECTED_WAIT_HOUR_ON_PQ": 8,
    "BASE_DEFAULT_QUEUE_LENGTH_PER_PQ_USER": 5,
    "BASE_QUEUE_RATIO_ON_PQ": 0.05,
    "STATIC_MAX_QUEUE_RUNNING_RATIO": 2.0,
    "MAX_EXPECTED_WAIT_HOUR": 12.0,
    "NEW_BASIC_WEIGHT": False,
    "USE_L1_SHARE_USAGE": False,
}
DEFAULTS_OF_MATCHING = {"MATCH_SHARE": 1000, "MATCH_BACKGROUND": False}
DEFAULTS_OF_USERS = {
    "CAP_RUNNING_USER_JOBS": 0,
    "CAP_RUNNING_USER_CORES": 0,
    "CAP_RUNNING_GROUP_JOBS": 0,
    "CAP_RUNNING_GROUP_CORES": 0,
    "USER_USAGE_THRESHOLD_A": 1000,
    "USER_USAGE_THRESHOLD_B": 8000,
    "PROGRESS_TO_BOOST_A": 90,
    "PROGRESS_TO_BOOST_B": 95,
    "MAX_REM_JOBS_TO_BOOST_A": 500,
    "MAX_REM_JOBS_TO_BOOST_B": 200,
}


def entry(**changes: object) -> KeyEntry:
    content: dict[str, object] = {
        "key": "LIMIT",
        "component": "jobbroker",
        "scope": "atlas",
        "type": "number",
        "unit": "GB",
        "default": 5,
        "meaning": "A limit.",
        "read_by": {"production_job": ["disk"]},
    }
    return KeyEntry.model_validate(content | changes)


def test_every_key_of_the_production_brokerages_has_the_default_of_the_specification() -> None:
    found = {e.key: e.default for e in shipped_catalogue() if e.app == "jedi"}
    assert found == DEFAULTS_IN_PANDA | DEFAULTS_OF_OUR_OWN | DEFAULTS_OF_ANALYSIS


def test_every_key_of_the_timeouts_has_the_default_of_the_specification() -> None:
    assert {e.key: e.default for e in shipped_catalogue() if e.app == "pandaserver"} == (
        DEFAULTS_OF_TIMEOUTS | DEFAULTS_OF_USERS | DEFAULTS_OF_MATCHING
    )


def test_shipped_entries_are_complete() -> None:
    for e in shipped_catalogue():
        assert e.app in {"jedi", "pandaserver"}
        assert e.component in {
            "job_timeout",
            "watcher",
            "rebroker",
            "jobbroker",
            "core",
            "taskbrokerage",
            "watchdog",
            "jobgen",
            "anal_jobbroker",
            "prio_mgr",
            "analy_eval",
            "matcher",
        }
        assert e.scope in {"atlas", "task", "any"}
        assert len(e.meaning) > 40, e.key
        assert all(codes for codes in e.read_by.values()), e.key


@pytest.mark.parametrize(
    ("key", "suffixes", "bare"),
    [
        ("NQUEUELIMITSITE", ("gshare",), False),
        ("MIN_WEIGHT", ("label", "gshare"), False),
        ("DISK_THRESHOLD", ("gshare",), True),
        ("PENDING_TIMEOUT", ("label",), False),
        ("MERGE_JOB_MAX_WALLTIME", ("label",), False),
        ("HEARTBEAT_TIMEOUT", ("workflow",), False),
        ("ANALY_TIMEOUT", ("workinggroup",), True),
        ("FAST_REBRO_THRESHOLD_NQUEUE", ("gshare",), False),
    ],
)
def test_families(key: str, suffixes: tuple[str, ...], bare: bool) -> None:
    family = shipped_catalogue().entry(key)
    assert (family.suffixes, family.bare) == (suffixes, bare)


def test_families_are_all_listed_above() -> None:
    assert {e.key for e in shipped_catalogue() if e.is_family} == {
        "NQUEUELIMITSITE",
        "MIN_WEIGHT",
        "DISK_THRESHOLD",
        "PENDING_TIMEOUT",
        "MERGE_JOB_MAX_WALLTIME",
        "HEARTBEAT_TIMEOUT",
        "ANALY_TIMEOUT",
        "MATCH_SHARE",
        "FAST_REBRO_THRESHOLD_NQUEUE",
    }


@pytest.mark.parametrize(
    "key",
    [
        "NQUEUELIMITSITE",
        "MAX_DISKIO_DEFAULT",
        "STORAGE_MIN_FREE_SIZE",
        "DATA_LOCATION_CHECK_PERIOD",
        "STORAGE_MIN_FREE_SIZE_OUTPUT",
    ],
)
def test_keys_whose_zero_means_default(key: str) -> None:
    assert shipped_catalogue().entry(key).zero_means_default


def test_no_other_key_takes_zero_for_the_default() -> None:
    assert len([e for e in shipped_catalogue() if e.zero_means_default and e.app == "jedi"]) == 5


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("NQUEUED_SAT_CAP", "NQUEUED_SAT_CAP"),
        ("NQUEUED_NUC_CAP", "NQUEUED_NUC_CAP"),
        ("NQUEUED_NUC_CAP_FOR_JOBS", "NQUEUED_NUC_CAP_FOR_JOBS"),
        ("NQUEUELIMITSITE_MC Simulation", "NQUEUELIMITSITE"),
        ("NQUEUELIMITSITE", None),
        ("NQUEUELIMITSITE_", None),
        ("NQUEUELIMITSITEX", None),
        ("MIN_WEIGHT_managed", "MIN_WEIGHT"),
        ("MIN_WEIGHT_managed_MC Derivations", "MIN_WEIGHT"),
        ("MIN_WEIGHT", None),
        ("DISK_THRESHOLD", "DISK_THRESHOLD"),
        ("DISK_THRESHOLD_Express", "DISK_THRESHOLD"),
        ("nqueued_sat_cap", None),
        ("", None),
    ],
)
def test_find_takes_full_names(name: str, found: str | None) -> None:
    result = shipped_catalogue().find(name)
    assert (result.key if result else None) == found


def test_a_plain_key_goes_before_a_family_that_it_begins_with() -> None:
    both = Catalogue([entry(key="CAP", suffixes=("gshare",)), entry(key="CAP_RUNNING")])
    assert both.require("CAP_RUNNING").key == "CAP_RUNNING"
    assert both.require("CAP_RUNNING_X").key == "CAP"


def test_the_longer_family_takes_a_name_that_fits_two() -> None:
    both = Catalogue([entry(key="CAP", suffixes=("gshare",)), entry(key="CAP_RUN", suffixes=("gshare",))])
    assert both.require("CAP_RUN_X").key == "CAP_RUN"


@pytest.mark.parametrize(
    ("wrong", "closest"),
    [
        ("NQUEUED_SATCAP", "NQUEUED_SAT_CAP"),
        ("nw_active", "NW_ACTIVE"),
        ("NQUEUELIMITSITE", "NQUEUELIMITSITE_<gshare>"),
        ("MIN_WEIGHTS_managed", "MIN_WEIGHT_<label>_<gshare>"),
    ],
)
def test_unknown_keys_name_the_closest(wrong: str, closest: str) -> None:
    with pytest.raises(UnknownKeyError) as error:
        shipped_catalogue().require(wrong)
    assert closest in error.value.closest
    assert closest in str(error.value)


def test_a_name_like_none_offers_nothing() -> None:
    with pytest.raises(UnknownKeyError) as error:
        shipped_catalogue().entry("QQQQ")
    assert error.value.closest == ()
    assert "did you mean" not in str(error.value)


@pytest.mark.parametrize(
    ("changes", "value", "accepted"),
    [
        ({"minimum": 0}, 0, True),
        ({"minimum": 0}, -1, False),
        ({"minimum": 0}, -0.001, False),
        ({"minimum": 0, "exclusive_minimum": True}, 0, False),
        ({"minimum": 0, "exclusive_minimum": True}, 0.001, True),
        ({"maximum": 100}, 100, True),
        ({"maximum": 100}, 100.001, False),
        ({"maximum": 100, "exclusive_maximum": True}, 100, False),
        ({"maximum": 100, "exclusive_maximum": True}, 99.999, True),
        ({}, math.nan, False),
        ({}, math.inf, False),
        ({}, -math.inf, False),
        ({}, 10**400, False),
        ({}, True, False),
        ({}, "5", False),
        ({}, None, False),
        ({}, [5], False),
        ({"type": "int"}, 5, True),
        ({"type": "int"}, 5.0, True),
        ({"type": "int"}, 5.5, False),
        ({"type": "int"}, False, False),
        ({"type": "float"}, 5, True),
        ({"type": "bool", "default": False}, True, True),
        ({"type": "bool", "default": False}, 1, False),
        ({"type": "bool", "default": False}, "true", False),
        ({"type": "str", "default": None}, "x", True),
        ({"type": "str", "default": None}, 1, False),
        ({"type": "json", "default": None}, {"a": [1]}, True),
        ({"type": "json", "default": None}, object(), False),
    ],
)
def test_check(changes: dict[str, object], value: object, accepted: bool) -> None:
    limited = entry(**changes)
    if accepted:
        assert limited.check(value) == value
    else:
        with pytest.raises(ValueRefusedError, match="LIMIT takes"):
            limited.check(value)


def test_whole_floats_of_int_keys_become_int() -> None:
    assert type(entry(type="int").check(5.0)) is int


def test_messages_are_short_for_hostile_values() -> None:
    with pytest.raises(ValueRefusedError) as error:
        entry().check("x" * 1_000_000)
    assert len(str(error.value)) < 200


def test_a_refusal_names_key_type_unit_and_range() -> None:
    with pytest.raises(ValueRefusedError) as error:
        shipped_catalogue().require("MIN_INPUT_COMPLETENESS").check(101)
    assert str(error.value) == "101 is out of range; MIN_INPUT_COMPLETENESS takes a number in %, >= 0 and <= 100"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"bare": True}, "bare is for families"),
        ({"type": "bool", "default": False, "minimum": 0}, "for numbers"),
        ({"type": "bool", "default": False, "zero_means_default": True}, "for numbers"),
        ({"default": None}, "needs a default"),
        ({"default": 5, "minimum": 6}, "out of range"),
        ({"default": "five"}, "is not a number"),
        ({"key": "lower"}, "pattern"),
        ({"extra": 1}, "Extra inputs"),
        ({"type": "decimal"}, "'int', 'float'"),
    ],
)
def test_wrong_entries_are_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        entry(**changes)


def test_a_key_that_is_there_twice_is_refused() -> None:
    with pytest.raises(CatalogueError, match="LIMIT is there twice"):
        Catalogue([entry(), entry()])


@pytest.mark.parametrize("other", ["NONE", "SWITCH", "FAMILY"])
def test_at_most_must_name_a_plain_number_key(other: str) -> None:
    others = [entry(key="SWITCH", type="bool", default=False), entry(key="FAMILY", suffixes=("gshare",))]
    with pytest.raises(CatalogueError, match=f"not {other}"):
        Catalogue([entry(at_most=other), *others])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("keys: [", "not valid YAML"),
        ("[]", "valid dictionary"),
        ("version: 2\nkeys: []", "version"),
        ("version: 1\nkeys: []", "keys"),
        ("version: 1\nkeys:\n  - key: A_KEY\n    component: c", "A_KEY.scope: Field required"),
        ("version: 1\nkeys:\n  - 5", "entry 1"),
        ("!!python/object/apply:os.getcwd []", "not valid YAML"),
    ],
)
def test_wrong_files_say_where(text: str, message: str) -> None:
    with pytest.raises(CatalogueError, match=message) as error:
        parse_catalogue(text, "here.yaml")
    assert "here.yaml" in str(error.value)


def test_kinds_are_the_ones_of_the_table() -> None:
    assert {kind.value for kind in Kind} == {"int", "float", "number", "bool", "str", "json"}


def test_pickles() -> None:
    assert pickle.loads(pickle.dumps(shipped_catalogue())) == shipped_catalogue()  # noqa: S301
