"""The catalogue of keys: its file, and the checks of values against it."""

from __future__ import annotations

import math
import pickle

import pytest

from broker.gdpconfig.catalogue import (
    Catalogue,
    CatalogueError,
    KeyEntry,
    UnknownKeyError,
    ValueRefusedError,
    ValueType,
    parse_catalogue,
    shipped_catalogue,
)


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


def test_shipped_entries_are_complete() -> None:
    for key_entry in shipped_catalogue():
        assert key_entry.app in {"jedi", "pandaserver"}
        assert key_entry.component in {
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
            "retry_module",
            "dbproxy",
        }
        assert key_entry.scope in {"atlas", "task", "any"}
        assert len(key_entry.meaning) > 40, key_entry.key
        assert all(codes for codes in key_entry.read_by.values()), key_entry.key


@pytest.mark.parametrize(
    ("key", "suffixes", "bare"),
    [
        ("NQUEUELIMITSITE", ("gshare",), True),
        ("MIN_WEIGHT", ("label", "gshare"), False),
        ("DISK_THRESHOLD", ("gshare",), True),
        ("PENDING_TIMEOUT", ("label",), False),
        ("MERGE_JOB_MAX_WALLTIME", ("label",), False),
        ("HEARTBEAT_TIMEOUT", ("workflow",), False),
        ("ANALY_TIMEOUT", ("workinggroup",), True),
        ("FAST_REBRO_THRESHOLD_NQUEUE", ("gshare",), False),
    ],
)
def test_suffixes_of_families(key: str, suffixes: tuple[str, ...], bare: bool) -> None:
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
        "MATCH_TIER",
        "MATCH_TYPE_WEIGHT",
        "MATCH_LIMIT",
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
def test_zero_means_the_default_for_these_keys(key: str) -> None:
    assert shipped_catalogue().entry(key).zero_means_default


def test_zero_means_the_default_for_no_other_key() -> None:
    assert len([e for e in shipped_catalogue() if e.zero_means_default and e.app == "jedi"]) == 5


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("NQUEUED_SAT_CAP", "NQUEUED_SAT_CAP"),
        ("NQUEUED_NUC_CAP", "NQUEUED_NUC_CAP"),
        ("NQUEUED_NUC_CAP_FOR_JOBS", "NQUEUED_NUC_CAP_FOR_JOBS"),
        ("NQUEUELIMITSITE_MC Simulation", "NQUEUELIMITSITE"),
        ("NQUEUELIMITSITE", "NQUEUELIMITSITE"),
        ("FAST_REBRO_THRESHOLD_NQUEUE", None),
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
def test_find_resolves_full_names_only(name: str, expected: str | None) -> None:
    result = shipped_catalogue().find(name)
    assert (result.key if result else None) == expected


def test_a_plain_key_takes_precedence_over_a_family_with_that_prefix() -> None:
    catalogue = Catalogue([entry(key="CAP", suffixes=("gshare",)), entry(key="CAP_RUNNING")])
    assert catalogue.require("CAP_RUNNING").key == "CAP_RUNNING"
    assert catalogue.require("CAP_RUNNING_X").key == "CAP"


def test_a_name_that_fits_two_families_belongs_to_the_longer_one() -> None:
    catalogue = Catalogue([entry(key="CAP", suffixes=("gshare",)), entry(key="CAP_RUN", suffixes=("gshare",))])
    assert catalogue.require("CAP_RUN_X").key == "CAP_RUN"


@pytest.mark.parametrize(
    ("wrong", "closest"),
    [
        ("NQUEUED_SATCAP", "NQUEUED_SAT_CAP"),
        ("nw_active", "NW_ACTIVE"),
        ("FAST_REBRO_THRESHOLD_NQUEUE", "FAST_REBRO_THRESHOLD_NQUEUE_<gshare>"),
        ("MIN_WEIGHTS_managed", "MIN_WEIGHT_<label>_<gshare>"),
    ],
)
def test_the_error_for_an_unknown_key_names_the_closest_keys(wrong: str, closest: str) -> None:
    with pytest.raises(UnknownKeyError) as error:
        shipped_catalogue().require(wrong)
    assert closest in error.value.closest
    assert closest in str(error.value)


def test_the_error_for_an_unrelated_name_suggests_nothing() -> None:
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
def test_check_accepts_only_values_of_the_type_and_range(
    changes: dict[str, object], value: object, accepted: bool
) -> None:
    limited = entry(**changes)
    if accepted:
        assert limited.check(value) == value
    else:
        with pytest.raises(ValueRefusedError, match="LIMIT takes"):
            limited.check(value)


def test_whole_floats_of_int_keys_become_int() -> None:
    assert type(entry(type="int").check(5.0)) is int


def test_messages_stay_short_for_huge_values() -> None:
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


def test_a_duplicate_key_is_refused() -> None:
    with pytest.raises(CatalogueError, match="LIMIT is there twice"):
        Catalogue([entry(), entry()])


@pytest.mark.parametrize("limiting_key", ["NONE", "SWITCH", "FAMILY"])
def test_at_most_must_name_a_plain_number_key(limiting_key: str) -> None:
    entries = [entry(key="SWITCH", type="bool", default=False), entry(key="FAMILY", suffixes=("gshare",))]
    with pytest.raises(CatalogueError, match=f"not {limiting_key}"):
        Catalogue([entry(at_most=limiting_key), *entries])


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
def test_errors_in_a_file_name_the_place(text: str, message: str) -> None:
    with pytest.raises(CatalogueError, match=message) as error:
        parse_catalogue(text, "here.yaml")
    assert "here.yaml" in str(error.value)


def test_value_types_are_those_of_the_config_table() -> None:
    assert {kind.value for kind in ValueType} == {"int", "float", "number", "bool", "str", "json"}


def test_a_catalogue_can_be_pickled() -> None:
    assert pickle.loads(pickle.dumps(shipped_catalogue())) == shipped_catalogue()  # noqa: S301
