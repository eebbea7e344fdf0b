"""PanDA's generic broker beside ours on generated grids of a VO that has no brokers of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import plugged
import pytest
from grids.generic import scenario
from pandaserver.config import panda_config
from upstream.one_grid import compare_site, theirs
from upstream.run import Counted
from upstream.through_plugin import compare_plugin

#: Of the decisions, what the profile ``panda-gen`` must take as PanDA does.
SHARE = 0.99
PROFILE, KIND = "panda-gen", "generic_job"


@pytest.mark.parametrize(("kind_of_grid", "grids"), [({}, 4), ({"bent": True}, 6), ({"rich": True}, 6)], ids=str)
def test_the_generic_broker_decides_alike(
    kind_of_grid: dict[str, bool], grids: int, make_site: Any, capsys: Any
) -> None:
    counted = Counted()
    for seed in range(grids):
        counted += compare_site(make_site(scenario(seed, **kind_of_grid)), KIND, PROFILE, seed)
    with capsys.disabled():
        print(f"{KIND}: {counted.equal} of {counted.results} equal to PanDA's, {counted.brokered} with candidates")
    assert counted.results > 11 * grids and counted.brokered > counted.results / 3
    assert counted.agreement >= SHARE, counted.differences


def test_the_plugin_decides_as_the_generic_broker_does(make_site: Any, use_service: Any) -> None:
    counted = Counted()
    plugged.configure()
    for seed in range(3):
        site = make_site(scenario(seed))
        counted += compare_plugin(site, KIND, use_service(site.url, profile=PROFILE, fallback="wait"), seed)
    assert counted.brokered > counted.results / 3
    assert not counted.differences


OWN_PROFILE = f"""profile: own
extends: {PROFILE}
redecide: timers
brokerages:
  - brokerage: {KIND}
    rules:
      file_dispatch: {{disabled: true, because: "disable_file_dispatch is set in panda_server.cfg."}}
"""


def test_both_sides_agree_where_files_are_not_dispatched(
    make_site: Any, use_service: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "profiles").mkdir()
    (tmp_path / "profiles" / "own.yaml").write_text(OWN_PROFILE, encoding="utf-8")
    plugged.configure()
    counted, dispatched = Counted(), 0
    for seed in range(4):
        site = make_site(scenario(seed))
        dispatched += sum(len(one.candidates) for one in theirs(site, KIND))
        monkeypatch.setattr(panda_config, "disable_file_dispatch", True)
        service = use_service(site.url, profile="own", config=tmp_path, fallback="wait")
        counted += compare_plugin(site, KIND, service, seed)
        dispatched -= sum(len(one.candidates) for one in theirs(site, KIND))
        monkeypatch.undo()
    assert dispatched > 0 and counted.brokered
    assert counted.agreement >= SHARE, counted.differences
