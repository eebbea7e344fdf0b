"""PanDA's brokers beside ours on generated grids: both sides are counted, decision by decision."""

from __future__ import annotations

from typing import Any

import plugged
import pytest
from grids.generator import scenario
from upstream.one_grid import compare_site
from upstream.run import Counted
from upstream.through_plugin import compare_plugin

GRIDS, BENT, RICH = 3, 5, 6
KINDS = ("production_job", "analysis_job", "production_task")


#: Of the decisions, what the profile ``panda`` must take as PanDA does.
SHARE = 0.98


@pytest.mark.parametrize("kind", KINDS)
def test_both_sides_decide_every_chunk_of_every_grid(kind: Any, make_site: Any, capsys: Any) -> None:
    counted = {profile: Counted() for profile in ("panda", "seed")}
    for seed in range(GRIDS):
        site = make_site(scenario(seed, kind))
        for profile in counted:
            counted[profile] += compare_site(site, kind, profile, seed)
    with capsys.disabled():
        for profile, total in counted.items():
            print(f"{kind}: {total.equal} of {total.results} equal to PanDA's in profile {profile}")
    assert {total.results for total in counted.values()} == {12 * GRIDS}
    assert {total.brokered for total in counted.values()} == {counted["panda"].brokered} != {0}
    assert counted["panda"].agreement >= SHARE, counted["panda"].differences
    # the departures of the profile are what differs, never everything
    assert counted["seed"].equal > 0


@pytest.mark.parametrize("kind", KINDS)
def test_both_sides_decide_alike_on_odd_grids(kind: Any, make_site: Any, capsys: Any) -> None:
    """Wrong and missing values, GPUs, containers and tags, full storages, throttles, several endpoints of a site."""
    counted = Counted()
    for seed in range(BENT):
        counted += compare_site(make_site(scenario(seed, kind, bent=True)), kind, "panda", seed)
    with capsys.disabled():
        print(f"{kind}: {counted.equal} of {counted.results} equal to PanDA's on odd grids in profile panda")
    assert counted.results == 12 * BENT and counted.brokered
    assert counted.agreement >= SHARE, counted.differences


@pytest.mark.parametrize("kind", KINDS)
def test_both_sides_decide_alike_on_grids_with_rare_work(kind: Any, make_site: Any, capsys: Any) -> None:
    """Jumbo jobs, event service, merging, clones, quotas, virtual placement, containers, queues without output."""
    counted = Counted()
    for seed in range(RICH):
        counted += compare_site(make_site(scenario(seed, kind, rich=True)), kind, "panda", seed)
    with capsys.disabled():
        print(f"{kind}: {counted.equal} of {counted.results} equal to PanDA's on grids with rare work in profile panda")
    assert counted.results > 10 * RICH and counted.brokered
    assert counted.agreement >= SHARE, counted.differences


@pytest.mark.parametrize("kind", KINDS)
def test_the_plugin_decides_as_panda_does(kind: Any, make_site: Any, use_service: Any, capsys: Any) -> None:
    """As the agent: the plug-in has every source that the profile's rules ask for."""
    counted = Counted()
    plugged.configure()
    for seed in range(GRIDS):
        site = make_site(scenario(seed, kind))
        service = use_service(site.url, profile="panda", fallback="wait")
        counted += compare_plugin(site, kind, service, seed)
    with capsys.disabled():
        print(f"{kind}: {counted.equal} of {counted.results} of the plug-in equal to PanDA's")
    assert counted.results == 12 * GRIDS and counted.brokered
    assert counted.agreement >= SHARE, counted.differences
