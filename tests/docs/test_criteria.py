"""The page on criteria lists every token, and describes missing sources as the rules treat them."""

from __future__ import annotations

import re
from pathlib import Path

from broker.brokerages.production_job.brokerage import chain
from broker.rules.contract import Filter, GroupFilter

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "reference" / "criteria.md").read_text(encoding="utf-8")
TOKENS = [
    "status",
    "dest_blacklisted",
    "links_full",
    "link_unusable",
    "opportunistic",
    "inactive",
    "zeroshare",
    "jumbo",
    "fewevents",
    "diskIO",
    "cpucore",
    "max_cpucore",
    "cache",
    "regexpcmtconfig",
    "lowmemory",
    "highmemory",
    "remoteio",
    "disk",
    "read_lan_blacklist",
    "write_lan_blacklist",
    "write_wan_blacklist",
    "read_wan_blacklist",
    "source_blacklist",
    "shortwalltime",
    "scout_walltime",
    "min_walltime",
    "longwalltime",
    "network",
    "es",
    "eshigh",
    "nones",
    "es_ucore",
    "transferring",
    "non_pledged",
    "over_pledged",
    "t1weight",
    "max_io_intensity",
    "full_chain",
    "not_full_chain",
    "nopilot",
    "io",
    "lock",
    "non_local",
    "cap",
    "lowNetworkWeight",
    "cap_rt",
    "others_bootstrap",
    "below_min_weight",
    "use",
    "usejumbo",
    "t1_weight",
    "low_weight",
]


def test_every_token_is_on_the_page() -> None:
    assert [token for token in TOKENS if f"`{token}`" not in PAGE] == []


def test_every_filter_and_cut_is_on_the_page() -> None:
    rules = [*chain().filters, *chain().cuts]
    assert [rule.name for rule in rules if f"`{rule.name}`" not in PAGE and f"`{rule.code}`" not in PAGE] == []


def test_missing_sources_are_described_as_the_rules_treat_them() -> None:
    table = PAGE[PAGE.index("| source | kept | rejected |") :].split("\n\n")[0]
    documented: dict[str, tuple[set[str], set[str]]] = {}
    for line in table.splitlines()[2:]:
        source, *cells = (cell.strip() for cell in line.strip("|").split("|"))
        keeping, rejecting = (set(re.findall(r"`(\w+)`", cell)) for cell in cells)
        documented[source] = (keeping, rejecting)
    filters = [rule for rule in chain().filters if isinstance(rule, (Filter, GroupFilter))]
    for source, (keeping, rejecting) in documented.items():
        rules = [rule for rule in filters if source in rule.sources]
        assert {rule.name for rule in rules if rule.unknown_policy == "keep"} == keeping, source
        assert {rule.name for rule in rules if rule.unknown_policy == "reject"} == rejecting, source
    assert {source for rule in filters for source in rule.sources} - set(documented) == {"queues"}
