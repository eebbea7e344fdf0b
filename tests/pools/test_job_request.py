"""Keywords of a job description: which are honoured, which are refused, and which are passed through."""

from __future__ import annotations

import pytest

from broker.pools.model.description import RequirementRefused
from broker.pools.model.job_request import JobRequest, job_request
from broker.pools.model.job_text import read_job

FULL = """[
 JobName = "fit";
 Executable = "/bin/fit"; Arguments = "-n 4";
 Site = { "LCG.B.org", " LCG.A.org", "LCG.A.org" }; BannedSite = "LCG.C.org, LCG.D.org"; BannedSites = { "LCG.C.org" };
 Platform = { "x86_64-el9", "any-arch" };
 CPUTime = 86400; NumberOfProcessors = "8"; Priority = 0; JobType = "User";
 Owner = "ada"; OwnerGroup = "lhcb_user"; VirtualOrganization = "LHCb"; VO = "lhcb";
 StdOutput = "std.out"; InputSandbox = { "a", 1 }; Extra = [ Depth = 2e1; ];
 Requirements = [ Memory = 4000; ]
]"""


def request_of(text: str) -> JobRequest:
    return job_request(read_job(text, "jdl").description)


def test_every_keyword() -> None:
    assert request_of(FULL) == JobRequest(
        "/bin/fit", "fit", "-n 4", ("LCG.A.org", "LCG.B.org"), ("LCG.C.org", "LCG.D.org"), ("any-arch", "x86_64-el9"),
        86400, 8, 0, "User", "ada", "lhcb_user", "lhcb",
        {"StdOutput": "std.out", "InputSandbox": ["a", "1"], "Extra": {"Depth": "2e1"}},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("attributes", "outputs", "keeps_log"),
    [
        ('OutputData = {"a.root", "LFN:/lhcb/x/b.root", "a.root"};', ("a.root", "b.root"), False),
        ('OutputData = "a, b";', ("a", "b"), False),
        ('OutputSandbox = {"std.out"};', (), True),
        ("OutputSandbox = {};", (), False),
        ("", (), False),
    ],
)
def test_outputs_of_a_job(attributes: str, outputs: tuple[str, ...], keeps_log: bool) -> None:
    request = request_of(f'[ Executable = "x"; {attributes} ]')
    assert (request.outputs, request.keeps_log, request.other_keywords) == (outputs, keeps_log, {})


@pytest.mark.parametrize("name", ["a b", "-a", "a;b", "a/", "ä", "x" * 201, "*.root"])
def test_invalid_names_of_output_files_are_refused(name: str) -> None:
    with pytest.raises(RequirementRefused, match="bad-value"):
        request_of(f'[ Executable = "x"; OutputData = {{"{name}"}}; ]')


def test_cfg_gives_the_same_request() -> None:
    text = "Executable = x\nSite = A, B\nBannedSite = C\nCPUTime = 3600.0\nStdOutput = o\n"
    request = job_request(read_job(text, "cfg").description)
    assert request == JobRequest(
        "x", sites=("A", "B"), banned_sites=("C",), cpu_time_s=3600, other_keywords={"StdOutput": "o"}
    )


@pytest.mark.parametrize("value", ['"ANY"', '"any"', '""', "{}", '{"A", "Any"}', '" , "'])
def test_any_site_is_no_restriction(value: str) -> None:
    for keyword in ("Site", "Platform"):
        request = request_of(f'[ Executable = "x"; {keyword} = {value}; BannedSite = "B"; ]')
        assert (request.sites, request.platforms, request.banned_sites) == ((), (), ("B",))


@pytest.mark.parametrize(
    ("inner", "code", "name"),
    [
        ("", "no-executable", "Executable"),
        ('Executable = "  ";', "empty-value", "Executable"),
        ("Executable = 5;", "bad-value", "Executable"),
        (f'Executable = "{"x" * 129}";', "bad-value", "Executable"),
        (f'OwnerGroup = "{"x" * 21}";', "bad-value", "OwnerGroup"),
        ('executable = "x";', "keyword-case", "executable"),
        ('SITE = "A";', "keyword-case", "SITE"),
        ('Site = "A"; BannedSite = "A";', "impossible-site", "Site"),
        ('Site = { "A", "B" }; BannedSites = { "A", "B", "C" };', "impossible-site", "Site"),
        ('BannedSite = "ANY";', "bad-value", "BannedSite"),
        ("Site = 5;", "bad-value", "Site"),
        ("Site = { 5 };", "bad-value", "Site"),
        ("Site = [ A = 1; ];", "bad-value", "Site"),
        ("CPUTime = 0;", "bad-value", "CPUTime"),
        ("CPUTime = 1.5;", "bad-value", "CPUTime"),
        ("CPUTime = 2147483648;", "bad-value", "CPUTime"),
        ('CPUTime = "1 day";', "bad-value", "CPUTime"),
        ("CPUTime = { 1 };", "bad-value", "CPUTime"),
        ("Priority = 11;", "bad-value", "Priority"),
        ("Priority = -1;", "bad-value", "Priority"),
        ("NumberOfProcessors = 1000;", "bad-value", "NumberOfProcessors"),
        ('VO = "lhcb"; VirtualOrganization = "atlas";', "bad-value", "VirtualOrganization"),
        ('RequiredTag = "GPU";', "not-honoured", "RequiredTag"),
        ('GridCE = "ce";', "not-honoured", "GridCE"),
        ('InputData = { "/lhcb/x" };', "not-honoured", "InputData"),
        ("MaxRAM = 4;", "not-honoured", "MaxRAM"),
        ("Arguments = [ A = 1; ];", "bad-value", "Arguments"),
    ],
)
def test_invalid_descriptions_are_refused(inner: str, code: str, name: str) -> None:
    with pytest.raises(RequirementRefused) as refusal:
        request_of(f'[ {inner} Executable = "x"; ]' if inner and "xecutable" not in inner else f"[ {inner} ]")
    assert (refusal.value.code, refusal.value.name) == (code, name)
    assert code == "no-executable" or refusal.value.place is not None


def test_limits_of_integers() -> None:
    request = request_of('[ Executable = "x"; CPUTime = 2147483647; Priority = 10; NumberOfProcessors = 999; ]')
    assert (request.cpu_time_s, request.priority, request.cores) == (2147483647, 10, 999)
    request = request_of('[ Executable = "x"; CPUTime = 1; Priority = 0; NumberOfProcessors = 1; ]')
    assert (request.cpu_time_s, request.priority, request.cores) == (1, 0, 1)
