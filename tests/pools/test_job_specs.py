"""Node requirements in JDL and CFG: tags with and without quotes, one spec or several, and refusals."""

from __future__ import annotations

import pytest

from broker.matching.specs.job_reading import read_job
from broker.pools.model.cfg import parse_cfg
from broker.pools.model.description import RequirementRefused
from broker.pools.model.jdl import parse_jdl
from broker.pools.model.job_specs import specs_of_description

WHOLE = """[ Executable = "x"; MatchingSpecs = {
 [ wall_time = 3600; tags = a & (b | ~c); site = "S.One";  // at the first
   cpu = [ num_cores = [ min = 1; max = 8; ]; ram_mb = [ request = [ overhead = 1000; per_core = 500; ]; ]; ];
   system = [ name = "Linux"; user_namespaces = true; glibc = "2.17"; ]; ],
 [ site = "S.Two"; tags = "d"; ] }; CPUTime = 3; ]"""
CFG = """Executable = x
MatchingSpecs
{
  first
  {
    site = S.One
    wall_time = 3600
    tags = a & (b | ~c)
    cpu
    {
      num_cores
      {
        min = 1
        max = 8
      }
      ram_mb
      {
        request
        {
          overhead = 1000
          per_core = 500
        }
      }
    }
    system
    {
      name = Linux
      user_namespaces = true
      glibc = 2.17
    }
  }
  second
  {
    site = S.Two
    tags = d
  }
}
CPUTime = 3
"""
DOCUMENT = {
    "matching_specs": [
        {
            "site": "S.One", "wall_time": 3600, "tags": "a & (b | ~c)",
            "cpu": {"num_cores": {"min": 1, "max": 8}, "ram_mb": {"request": {"overhead": 1000, "per_core": 500}}},
            "system": {"name": "Linux", "user_namespaces": True, "glibc": "2.17"},
        },
        {"site": "S.Two", "tags": "d"},
    ]
}  # fmt: skip


def test_jdl_cfg_and_yaml_give_the_same_specs() -> None:
    expected = read_job(DOCUMENT, vo="lhcb")
    assert specs_of_description(parse_jdl(WHOLE), "lhcb") == expected
    assert specs_of_description(parse_cfg(CFG), "lhcb") == expected


@pytest.mark.parametrize(
    ("attributes", "tags"),
    [
        ("Tags = cvmfs:lhcb & ~(os:el8 | a/b);", "cvmfs:lhcb & ~(a/b | os:el8)"),
        ('Tags = "a | b";', "a | b"),
        ('Tags = {"a", "b | c"};', "a & (b | c)"),
        ('Tag = "GPU";', "GPU"),
        ("Tags = ~a;", "~a"),
        ("Tags = a & b // both\n;", "a & b"),
        ("Tags = a\n & b;", "a & b"),
    ],
)
def test_tags_are_read(attributes: str, tags: str) -> None:
    specs = specs_of_description(parse_jdl(f'[ Executable = "x"; {attributes} ]'), "lhcb")
    assert specs is not None and str(specs.specs[0].tags) == tags
    assert specs.canonical == f'["matchspec/1","lhcb",[{{"cores":{{"least":1,"most":1}},"tags":"{tags}"}}]]'


@pytest.mark.parametrize(
    ("attributes", "code", "message"),
    [
        ("Tags = a &;", "bad-spec", "character 4"),
        ("Tags = a + b;", "expression-not-supported", "operators"),
        ("Tags = ;", "missing-value", "no value"),
        ("Tags = 5 5;", "bad-spec", "wanted"),
        ('Tags = [ a = "b"; ];', "bad-value", "expression"),
        ('Tags = "a"; Tag = "b";', "specs-twice", "Tags and Tag"),
        ('Tags = "a"; MatchingSpec = [ wall_time = 1; ];', "specs-twice", "MatchingSpec and Tags"),
        ('MatchingSpec = "a";', "specs-not-a-section", "no section"),
        ("MatchingSpec = [ wall_time = 0; ];", "bad-spec", "matching_specs[0].wall_time: 0"),
        ("MatchingSpec = [ system = [ glibc = 2.30; ]; ];", "bad-spec", "quotes"),
        ("MatchingSpecs = { [ wall_time = 1; ], 5 };", "expected-section", "sections"),
        ("MatchingSpecs = { [ wall_time = 1; ] [ wall_time = 1; ] };", "expected-comma", "section"),
        ("MatchingSpecs = { [ wall_time = 1; ],", "expected-section", "}"),
        ("MatchingSpecs = {};", "bad-spec", "at least one"),
        ("Other = { [ a = 1; ] };", "nested-list", "only"),
        ("Other = [ a = [ b = [ c = 1; ]; ]; ];", "nesting-too-deep", "3"),
        ("Other = true;", "expression-not-supported", "values"),
        ("MatchingSpec = [ a=[a=[a=[a=[a=[a=[a=[a=1;];];];];];];]; ];", "nesting-too-deep", "8"),
    ],
)
def test_invalid_specs_are_refused(attributes: str, code: str, message: str) -> None:
    with pytest.raises(RequirementRefused) as refusal:
        specs_of_description(parse_jdl(f'[ Executable = "x"; {attributes} ]'), "lhcb")
    assert refusal.value.code == code and message in str(refusal.value)
    assert refusal.value.place is not None


def test_a_cfg_nests_deeper_only_in_specs() -> None:
    deep = "{}\n{{\na\n{{\nb\n{{\nc\n{{\nd = 1\n}}\n}}\n}}\n}}\n"
    parse_cfg(deep.format("MatchingSpec"))
    with pytest.raises(RequirementRefused, match="nesting-too-deep"):
        parse_cfg(deep.format("Other"))


def test_a_job_without_specs_has_no_node_requirements() -> None:
    assert specs_of_description(parse_jdl('[ Executable = "x"; Site = "A"; ]'), "lhcb") is None
