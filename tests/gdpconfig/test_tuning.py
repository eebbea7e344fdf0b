"""The tuning as rules read it."""

from __future__ import annotations

import copy
import dataclasses
import math
import pickle

import numpy as np
import pytest
from hypothesis import given, strategies as st

from broker.gdpconfig.catalogue import Catalogue, KeyEntry, UnknownKeyError, Value, ValueRefusedError
from broker.gdpconfig.tuning import KeySource, Tuning, UndeclaredKeyError, WrongKindError


def catalogue_with_texts() -> Catalogue:
    fields = {"component": "c", "scope": "atlas", "unit": "-", "meaning": "For the test.", "read_by": {}}
    return Catalogue(
        [
            KeyEntry.model_validate({"key": "NAME", "type": "str", "default": None, **fields}),
            KeyEntry.model_validate({"key": "GREETING", "type": "str", "default": "hello", **fields}),
            KeyEntry.model_validate({"key": "TABLE", "type": "json", "default": None, **fields}),
            KeyEntry.model_validate({"key": "SWITCH", "type": "bool", "default": True, **fields}),
        ]
    )


def test_defaults() -> None:
    tuning = Tuning.defaults()
    assert (tuning.version, tuning.vo) == (0, "atlas")
    assert tuning.number("NQUEUED_SAT_CAP") == 150.0
    assert type(tuning.number("NQUEUED_SAT_CAP")) is float
    assert tuning.number("MERGE_JOB_MAX_WALLTIME") == math.inf
    assert tuning.flag("NW_ACTIVE") is True
    assert tuning.flag("WORK_SHORTAGE") is False


def test_text_and_json() -> None:
    tuning = Tuning.defaults(catalogue=catalogue_with_texts())
    assert tuning.text("NAME") is None
    assert tuning.text("GREETING") == "hello"
    assert tuning.json("TABLE") is None
    tuned = tuning.with_values({"NAME": "n", "TABLE": {"a": 1}})
    assert tuned.text("NAME") == "n"
    assert tuned.json("TABLE") == {"a": 1}


@pytest.mark.parametrize(
    ("reader", "key"),
    [
        ("number", "NW_ACTIVE"),
        ("flag", "NQUEUED_SAT_CAP"),
        ("text", "NQUEUED_SAT_CAP"),
        ("json", "NQUEUED_SAT_CAP"),
    ],
)
def test_a_key_read_as_another_type_is_an_error(reader: str, key: str) -> None:
    with pytest.raises(WrongKindError, match=key):
        getattr(Tuning.defaults(), reader)(key)


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("STORAGE_MIN_FREE_SIZE", 0, 200),
        ("STORAGE_MIN_FREE_SIZE", 1, 1),
        ("MAX_DISKIO_DEFAULT", 0, 1e10),
        ("MAX_DISKIO_DEFAULT", 0.0, 1e10),
        ("DATA_LOCATION_CHECK_PERIOD", 0, 7),
        ("NUM_CUTOFF_TO_MOVE_INPUT", 0, 0),  # zero is an ordinary value here
        ("MAX_MISSING_INPUT_FILES", 0, 0),
    ],
)
def test_zero_means_the_default_for_some_keys_only(key: str, value: Value, expected: float) -> None:
    assert Tuning.defaults().with_values({key: value}).number(key) == expected


def test_false_is_a_value() -> None:
    assert Tuning.defaults().with_values({"NW_ACTIVE": False}).flag("NW_ACTIVE") is False


@pytest.mark.parametrize(
    ("settings", "suffixes", "expected"),
    [
        ({}, ["A", None], [20, 20]),
        ({"NQUEUELIMITSITE_A": 5}, ["A", "B", "A", None, "a"], [5, 20, 5, 20, 20]),
        ({"NQUEUELIMITSITE_A": 0}, ["A"], [20]),
        ({"NQUEUELIMITSITE_MC 16": 7}, ["MC 16", "MC", "16"], [7, 20, 20]),
        ({"NQUEUELIMITSITE_A_B": 7}, ["A_B", "A", "B"], [7, 20, 20]),
        ({}, [], []),
    ],
)
def test_by_suffix(settings: dict[str, Value], suffixes: list[str | None], expected: list[float]) -> None:
    values = Tuning.defaults().with_values(settings).by_suffix("NQUEUELIMITSITE", suffixes)
    assert values.dtype == np.float64
    assert values.tolist() == expected


def test_by_suffix_of_a_family_with_a_bare_key() -> None:
    tuning = Tuning.defaults().with_values({"DISK_THRESHOLD": 50, "DISK_THRESHOLD_Express": 10})
    assert tuning.by_suffix("DISK_THRESHOLD", ["Express", "MC 16", None]).tolist() == [10, 50, 50]
    assert tuning.number("DISK_THRESHOLD") == 50


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, [0, 0, 0, 0]),
        ({"MIN_WEIGHT_managed": 0.5}, [0.5, 0.5, 0, 0]),
        ({"MIN_WEIGHT_managed_Express": 0.8}, [0.8, 0, 0, 0]),
        ({"MIN_WEIGHT_managed": 0.5, "MIN_WEIGHT_managed_Express": 0}, [0, 0.5, 0, 0]),
        ({"MIN_WEIGHT_managed": 0.5, "MIN_WEIGHT_user": 0.1}, [0.5, 0.5, 0.1, 0]),
    ],
)
def test_by_two_suffixes(settings: dict[str, Value], expected: list[float]) -> None:
    tuning = Tuning.defaults().with_values(settings)
    labels = ["managed", "managed", "user", None]
    shares = ["Express", None, "Express", "Express"]
    assert tuning.by_two_suffixes("MIN_WEIGHT", labels, shares).tolist() == expected


def test_by_two_suffixes_needs_equal_lengths() -> None:
    with pytest.raises(ValueError, match="zip"):
        Tuning.defaults().by_two_suffixes("MIN_WEIGHT", ["managed"], [])


@pytest.mark.parametrize(
    ("family", "count"), [("NQUEUED_SAT_CAP", 1), ("MIN_WEIGHT", 1), ("NQUEUELIMITSITE", 2), ("NW_ACTIVE", 2)]
)
def test_a_wrong_family_is_an_error(family: str, count: int) -> None:
    tuning = Tuning.defaults()
    with pytest.raises(WrongKindError, match=family):
        if count == 1:
            tuning.by_suffix(family, ["A"])
        else:
            tuning.by_two_suffixes(family, ["A"], ["B"])


@pytest.mark.parametrize(
    ("settings", "key", "suffixes", "source"),
    [
        ({}, "NQUEUED_SAT_CAP", (), KeySource("NQUEUED_SAT_CAP", 150, "files", "default")),
        ({"NQUEUED_SAT_CAP": 9}, "NQUEUED_SAT_CAP", (), KeySource("NQUEUED_SAT_CAP", 9, "files", "config")),
        ({}, "MIN_WEIGHT", ("A",), KeySource("MIN_WEIGHT_A", 0, "weight", "default")),
        ({}, "MIN_WEIGHT", (None,), KeySource("MIN_WEIGHT_<label>_<gshare>", 0, "weight", "default")),
        ({}, "NQUEUELIMITSITE", ("A",), KeySource("NQUEUELIMITSITE", 20, "jobs", "default")),
        ({}, "NQUEUELIMITSITE", (None,), KeySource("NQUEUELIMITSITE", 20, "jobs", "default")),
        ({"NQUEUELIMITSITE": 9}, "NQUEUELIMITSITE", ("A",), KeySource("NQUEUELIMITSITE", 9, "jobs", "config")),
        ({"NQUEUELIMITSITE_A": 3}, "NQUEUELIMITSITE", ("A",), KeySource("NQUEUELIMITSITE_A", 3, "jobs", "config")),
        ({"NQUEUELIMITSITE_A": 0}, "NQUEUELIMITSITE", ("A",), KeySource("NQUEUELIMITSITE_A", 20, "jobs", "default")),
        (
            {"MIN_WEIGHT_managed": 0.5},
            "MIN_WEIGHT",
            ("managed", "A"),
            KeySource("MIN_WEIGHT_managed", 0.5, "weight", "config"),
        ),
        ({"DISK_THRESHOLD": 5}, "DISK_THRESHOLD", ("A",), KeySource("DISK_THRESHOLD", 5, "TB", "config")),
        ({}, "DISK_THRESHOLD", ("A",), KeySource("DISK_THRESHOLD", 100, "TB", "default")),
    ],
)
def test_source_of_names_the_key_that_set_the_value(
    settings: dict[str, Value], key: str, suffixes: tuple[str | None, ...], source: KeySource
) -> None:
    assert Tuning.defaults().with_values(settings).source_of(key, *suffixes) == source


def test_only_refuses_every_other_key() -> None:
    view = Tuning.defaults().with_values({"NQUEUED_SAT_CAP": 9}).only(["NQUEUED_SAT_CAP", "NQUEUELIMITSITE"])
    assert view.number("NQUEUED_SAT_CAP") == 9
    assert view.by_suffix("NQUEUELIMITSITE", ["A"]).tolist() == [20]
    with pytest.raises(UndeclaredKeyError, match="NW_ACTIVE was read, but only NQUEUED_SAT_CAP, NQUEUELIMITSITE"):
        view.flag("NW_ACTIVE")
    with pytest.raises(UndeclaredKeyError):
        view.by_two_suffixes("MIN_WEIGHT", ["managed"], ["A"])
    with pytest.raises(UndeclaredKeyError):
        view.source_of("NW_ACTIVE")
    with pytest.raises(UnknownKeyError):
        view.number("NO_SUCH_KEY")


def test_only_refuses_unknown_keys() -> None:
    with pytest.raises(UnknownKeyError, match="NQUEUED_SAT_CAP"):
        Tuning.defaults().only(["NQUEUED_SATCAP"])


def test_a_view_without_keys_refuses_every_key() -> None:
    with pytest.raises(UndeclaredKeyError, match="no key is declared"):
        Tuning.defaults().only([]).number("NQUEUED_SAT_CAP")


@pytest.mark.parametrize(
    ("values", "error"),
    [
        ({"NO_SUCH_KEY": 1}, UnknownKeyError),
        ({"MIN_WEIGHT": 1}, UnknownKeyError),
        ({"NQUEUED_SAT_CAP": "1"}, ValueRefusedError),
        ({"MIN_INPUT_COMPLETENESS": 100.5}, ValueRefusedError),
        ({"NW_THRESHOLD": math.nan}, ValueRefusedError),
    ],
)
def test_with_values_checks_the_values(values: dict[str, Value], error: type[Exception]) -> None:
    with pytest.raises(error):
        Tuning.defaults().with_values(values)


def test_with_values_returns_an_unpublished_copy() -> None:
    original = Tuning(17, "atlas", {"NQUEUED_SAT_CAP": 9})
    changed = original.with_values({"NQUEUED_SAT_CAP": 10})
    assert (original.version, original.number("NQUEUED_SAT_CAP")) == (17, 9)
    assert (changed.version, changed.number("NQUEUED_SAT_CAP")) == (0, 10)


def test_a_tuning_is_immutable_and_picklable() -> None:
    tuning = Tuning(17, "atlas", {"NQUEUELIMITSITE_A": 9}).only(["NQUEUELIMITSITE"])
    with pytest.raises(dataclasses.FrozenInstanceError):
        tuning.version = 18  # type: ignore[misc]
    for copied in (pickle.loads(pickle.dumps(tuning)), copy.deepcopy(tuning)):  # noqa: S301
        assert copied == tuning
        assert hash(copied) == hash(tuning)
        assert copied.by_suffix("NQUEUELIMITSITE", ["A"]).tolist() == [9]
        with pytest.raises(UndeclaredKeyError):
            copied.flag("NW_ACTIVE")


def test_a_tuning_copies_the_mapping_it_gets() -> None:
    settings: dict[str, Value] = {"NQUEUED_SAT_CAP": 9}
    tuning = Tuning(1, "atlas", settings)
    settings["NQUEUED_SAT_CAP"] = 10
    assert tuning.number("NQUEUED_SAT_CAP") == 9


names = st.text("AB_ 1", min_size=1, max_size=4)


@given(st.dictionaries(names, st.integers(1, 99)), st.lists(st.one_of(st.none(), names)))
def test_by_suffix_agrees_with_a_plain_loop(limits: dict[str, int], suffixes: list[str | None]) -> None:
    tuning = Tuning.defaults().with_values({f"NQUEUELIMITSITE_{name}": limit for name, limit in limits.items()})
    expected = [limits.get(suffix, 20) if suffix is not None else 20 for suffix in suffixes]
    assert tuning.by_suffix("NQUEUELIMITSITE", suffixes).tolist() == expected
    for suffix, value in zip(suffixes, expected, strict=True):
        assert tuning.source_of("NQUEUELIMITSITE", suffix).value == value
