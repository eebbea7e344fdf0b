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
def test_every_format_gives_the_same_grid(text: str, suffix: str) -> None:
    expected = read_resources(SITES, ".json")
    assert expected.declarations is None
    for name_suffix in (suffix, "", ".txt"):
        document = read_resources(text, name_suffix)
        assert document.resources.version == expected.resources.version
        assert document.declarations is not None
        assert document.declarations.by_name == {"Memory": Declaration("number", "MB")}
        assert document.findings == ()
    long, short = document.resources.effective("lhcb")
    assert long.parameters == short.parameters == {"Memory": "5000", "Tag": ("a,b", "c"), "Version": "1.10"}
    assert [queue.admitted for queue in document.resources.effective("atlas")] == [True, False]
    assert str(long.name) == "LCG.Alpha.org/ce-1.x:8443/long"


def test_both_kinds_of_declarations_count() -> None:
    text = """{"resources": {}, "declared_types": {"A": "text", "B": "number", "C": {"Max": 3}},
        "JobDescription": {"MinB": 1, "MaxC": 9, "ChoicesD": ["x"],
                           "Requirements": {"A": "Number", "B": {"Unit": "MB"}}}}"""
    declarations = read_resources(text, ".json").declarations
    assert declarations is not None
    assert declarations.by_name == {
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
    with pytest.raises(WrongResources) as error:
        read_resources(text, suffix)
    assert str(error.value).startswith(f"{path}: ")


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
def test_invalid_text_is_refused_with_its_line(text: str, suffix: str, code: str, line: int | None) -> None:
    with pytest.raises(RequirementRefused) as refusal:
        read_resources(text, suffix)
    assert refusal.value.code == code
    assert line is None or (refusal.value.place is not None and refusal.value.place.line == line)


def test_yaml_values_are_read_as_text() -> None:
    text = "a: yes\nb: 1.10\nc: 2026-01-01\nd: ~\ne: '~'\nf: !!python/name:os.system\ng: 0x10\nh: [1e3]"
    assert yaml_tables(text) == {
        "a": "yes", "b": "1.10", "c": "2026-01-01", "d": None, "e": "~", "f": "", "g": "0x10", "h": ["1e3"],
    }  # fmt: skip
    assert yaml_tables("") == yaml_tables("---\n") == {}


def test_declarations_in_a_job_description_are_combined() -> None:
    declarations = job_description_of(
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
    assert declarations == {
        "Cores": Declaration(smallest=Decimal(1), largest=Decimal(64)),
        "Queue": Declaration(choices=frozenset({"short", "long"})),
        "Memory": Declaration("number", largest=Decimal(10**6)),
        "Model": Declaration("text"),
    }
    assert [declarations[name].effective_kind for name in ("Cores", "Queue", "Memory", "Model")] == [
        "number", "text", "number", "text",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "declaration",
    [{"Type": "Bool"}, {"Kind": "Text"}, {"Min": "low"}, {"Max": "4GB"}, {"Choices": 1}, {"Choices": [["a"]]}, 7],
)
def test_invalid_declarations_are_refused(declaration: object) -> None:
    with pytest.raises(WrongResources, match="declared_types/P"):
        declarations_of({"P": declaration})
