"""Resources and declarations in JSON, YAML and CFG: the same content gives the same grid."""

from __future__ import annotations

from decimal import Decimal

import pytest

from broker.pools.model.declarations import Declaration
from broker.pools.model.description import RequirementRefused
from broker.pools.model.resource_text import WrongResources, declarations_of, job_description_of, read_resources
from broker.pools.model.tables import yaml_tables

SITES = """{"LCG.Alpha.org": {"VO": ["lhcb"], "params": {"Memory": 4000, "Tag": ["a,b", "c"], "Old": ""},
 "vo_params": {"lhcb": {"Memory": "5000"}},
 "ces": {"ce-1.x:8443": {"params": {"Version": "1.10"}, "queues":
   {"long": {"VO": ["atlas", "lhcb"]}, "short": {}}}}}}
"""
DECLARED = '{"Memory": {"Type": "Number", "Unit": "MB"}}'
JSON = f'{{"about": 1, "declared_types": {DECLARED}, "resources": {SITES}}}'
YAML = """
JobDescription:
  Requirements:
    Memory: {Type: Number, Unit: MB}
resources:
  LCG.Alpha.org:
    VO: [lhcb]
    params: {Memory: 4000, Tag: ["a,b", c], Old: ~}
    vo_params:
      lhcb: {Memory: 5000}
    ces:
      ce-1.x:8443:
        params: {Version: 1.10}
        queues:
          long: {VO: "atlas, lhcb"}
          short:
"""
CFG = """
Operations
{
  JobDescription
  {
    DefaultCPUTime = 86400
    Requirements
    {
      Memory
      {
        Type = Number
        Unit = MB
      }
    }
  }
}
Resources
{
  Sites
  {
    LCG.Alpha.org
    {
      VO = lhcb
      Memory = 4000
      Tag = "a,b", c
      Old =
      VOs
      {
        lhcb
        {
          Memory = 5000
        }
      }
      CEs
      {
        ce-1.x:8443
        {
          Version = 1.10
          Queues
          {
            long
            {
              VO = atlas, lhcb
            }
            short {
            }
          }
        }
      }
    }
  }
}
"""


@pytest.mark.parametrize(("text", "suffix"), [(JSON, ".json"), (YAML, ".yaml"), (YAML, ".yml"), (CFG, ".cfg")])
def test_the_same_grid_in_every_form(text: str, suffix: str) -> None:
    wanted = read_resources(SITES, ".json")
    assert wanted.declarations is None
    for known_as in (suffix, "", ".txt"):
        found = read_resources(text, known_as)
        assert found.resources.version == wanted.resources.version
        assert found.declarations is not None
        assert found.declarations.by_name == {"Memory": Declaration("number", "MB")}
        assert found.findings == ()
    long, short = found.resources.effective("lhcb")
    assert long.parameters == short.parameters == {"Memory": "5000", "Tag": ("a,b", "c"), "Version": "1.10"}
    assert [queue.admitted for queue in found.resources.effective("atlas")] == [True, False]
    assert str(long.name) == "LCG.Alpha.org/ce-1.x:8443/long"


def test_both_kinds_of_declarations_count() -> None:
    text = """{"resources": {}, "declared_types": {"A": "text", "B": "number", "C": {"Max": 3}},
        "JobDescription": {"MinB": 1, "MaxC": 9, "ChoicesD": ["x"],
                           "Requirements": {"A": "Number", "B": {"Unit": "MB"}}}}"""
    declared = read_resources(text, ".json").declarations
    assert declared is not None
    assert declared.by_name == {
        "A": Declaration("text"),
        "B": Declaration("number", "MB", smallest=Decimal(1)),
        "C": Declaration(largest=Decimal(3)),
        "D": Declaration(choices=frozenset({"x"})),
    }


@pytest.mark.parametrize(
    ("text", "suffix", "path"),
    [
        ("[]", ".json", "the document"),
        ("x", ".yaml", "the document"),
        ("A = 1", ".cfg", "Resources"),
        ("Resources = 1", ".cfg", "Resources"),
        ("Resources {\nSites = 1\n}", ".cfg", "Resources/Sites"),
        ("Sites {\nS {\nCE {\n}\n}\n}", ".cfg", "S/CE"),
        ("Sites {\nS {\nCEs = x\n}\n}", ".cfg", "S/CEs"),
        ('{"resources": {}, "declared_types": {"A": "integer"}}', "", "declared_types/A"),
        ('{"resources": {}, "declared_types": []}', "", "declared_types"),
        ('{"resources": {}, "JobDescription": {"Requirements": 1}}', "", "JobDescription/Requirements"),
    ],
)
def test_another_shape_is_refused(text: str, suffix: str, path: str) -> None:
    with pytest.raises(WrongResources) as wrong:
        read_resources(text, suffix)
    assert str(wrong.value).startswith(f"{path}: ")


@pytest.mark.parametrize(
    ("text", "suffix", "code", "line"),
    [
        ("a: &x [1]\nb: *x", ".yaml", "not-yaml", 2),
        ("a: 1\na: 2", ".yaml", "duplicate-name", 2),
        ("a: 1\n b: 2", ".yaml", "not-yaml", 2),
        ("a: [1\n", ".yaml", "not-yaml", 2),
        ("a: 1\n---\nb: 1", ".yaml", "not-yaml", None),
        ("[a]: 1", ".yaml", "not-yaml", 1),
        ("a:\n " + "[" * 20, ".yaml", "nesting-too-deep", 2),
        ("a: \x00", ".yaml", "not-yaml", None),
        ("a: \ud800", ".yaml", "not-yaml", None),
        ('{"a": 1, "a": 2}', "", "duplicate-name", None),
        ("{", "", "not-json", 1),
        ('{"a":' * 20, ".json", "nesting-too-deep", None),
        ("Sites {\n", "", "unterminated-section", 1),
    ],
)
def test_what_cannot_be_read(text: str, suffix: str, code: str, line: int | None) -> None:
    with pytest.raises(RequirementRefused) as refused:
        read_resources(text, suffix)
    assert refused.value.code == code
    assert line is None or (refused.value.place is not None and refused.value.place.line == line)


def test_yaml_is_texts_only() -> None:
    text = "a: yes\nb: 1.10\nc: 2026-01-01\nd: ~\ne: '~'\nf: !!python/name:os.system\ng: 0x10\nh: [1e3]"
    assert yaml_tables(text) == {
        "a": "yes", "b": "1.10", "c": "2026-01-01", "d": None, "e": "~", "f": "", "g": "0x10", "h": ["1e3"],
    }  # fmt: skip
    assert yaml_tables("") == yaml_tables("---\n") == {}


def test_declarations_beside_each_other_in_a_job_description() -> None:
    found = job_description_of(
        {
            "DefaultCPUTime": "86400",
            "MinCores": "1",
            "MaxCores": "64",
            "ChoicesQueue": ["short", "long "],
            "MaxMemory": "1e6",
            "Max": "7",
            "Requirements": {"Memory": {"Type": "NUMBER"}, "Model": "Text"},
        }
    ).by_name
    assert found == {
        "Cores": Declaration(smallest=Decimal(1), largest=Decimal(64)),
        "Queue": Declaration(choices=frozenset({"short", "long"})),
        "Memory": Declaration("number", largest=Decimal(10**6)),
        "Model": Declaration("text"),
    }
    assert [found[name].effective_kind for name in ("Cores", "Queue", "Memory", "Model")] == [
        "number", "text", "number", "text",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "wrong",
    [{"Type": "Bool"}, {"Kind": "Text"}, {"Min": "low"}, {"Max": "4GB"}, {"Choices": 1}, {"Choices": [["a"]]}, 7],
)
def test_declarations_that_mean_nothing(wrong: object) -> None:
    with pytest.raises(WrongResources, match="declared_types/P"):
        declarations_of({"P": wrong})
