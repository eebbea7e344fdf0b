"""Keywords of a job description: what they mean, what would not be honoured, and what is kept."""

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
    ("written", "outputs", "keeps_log"),
    [
        ('OutputData = {"a.root", "LFN:/lhcb/x/b.root", "a.root"};', ("a.root", "b.root"), False),
        ('OutputData = "a, b";', ("a", "b"), False),
        ('OutputSandbox = {"std.out"};', (), True),
        ("OutputSandbox = {};", (), False),
        ("", (), False),
    ],
)
def test_what_a_job_writes(written: str, outputs: tuple[str, ...], keeps_log: bool) -> None:
    found = request_of(f'[ Executable = "x"; {written} ]')
    assert (found.outputs, found.keeps_log, found.kept) == (outputs, keeps_log, {})


@pytest.mark.parametrize("name", ["a b", "-a", "a;b", "a/", "ä", "x" * 201, "*.root"])
def test_names_of_files_that_a_pilot_cannot_take(name: str) -> None:
    with pytest.raises(RequirementRefused, match="bad-value"):
        request_of(f'[ Executable = "x"; OutputData = {{"{name}"}}; ]')


def test_the_same_in_cfg() -> None:
    text = "Executable = x\nSite = A, B\nBannedSite = C\nCPUTime = 3600.0\nStdOutput = o\n"
    found = job_request(read_job(text, "cfg").description)
    assert found == JobRequest("x", sites=("A", "B"), banned_sites=("C",), cpu_time_s=3600, kept={"StdOutput": "o"})


@pytest.mark.parametrize("value", ['"ANY"', '"any"', '""', "{}", '{"A", "Any"}', '" , "'])
def test_any_site_is_no_restriction(value: str) -> None:
    for keyword in ("Site", "Platform"):
        found = request_of(f'[ Executable = "x"; {keyword} = {value}; BannedSite = "B"; ]')
        assert (found.sites, found.platforms, found.banned_sites) == ((), (), ("B",))


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
def test_what_is_refused(inner: str, code: str, name: str) -> None:
    with pytest.raises(RequirementRefused) as refused:
        request_of(f'[ {inner} Executable = "x"; ]' if inner and "xecutable" not in inner else f"[ {inner} ]")
    assert (refused.value.code, refused.value.name) == (code, name)
    assert code == "no-executable" or refused.value.place is not None


def test_limits_of_whole_numbers() -> None:
    found = request_of('[ Executable = "x"; CPUTime = 2147483647; Priority = 10; NumberOfProcessors = 999; ]')
    assert (found.cpu_time_s, found.priority, found.cores) == (2147483647, 10, 999)
    found = request_of('[ Executable = "x"; CPUTime = 1; Priority = 0; NumberOfProcessors = 1; ]')
    assert (found.cpu_time_s, found.priority, found.cores) == (1, 0, 1)
