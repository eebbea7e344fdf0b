"""Bokeh plots over time: drawn under the content security policy, refreshed, without leaking memory."""

from __future__ import annotations

from typing import Any

import pytest

from tests.browser.visitor import Visitor

WARM, REFRESHES = 100, 1000
MOST_GROWN_BYTES, MOST_GROWN_NODES = 3 * 1024**2, 500
#: Refreshes follow one another at once and get the first answer of the server, so that only the browser is measured;
#: the event source of the page is kept, so that the test can send events.
AT_ONCE = """
    const later = window.setTimeout;
    window.setTimeout = (run, ms, ...rest) => later(run, Math.min(ms ?? 0, 1), ...rest);
    window.EventSource = class extends EventSource { constructor(address) { super(address); window.heard = this; } };
    const ask = window.fetch, told = new Map();
    window.fetch = async (address, options) => {
      const key = String(address);
      if (!told.has(key)) { told.set(key, await (await ask(address, options)).text()); }
      return new Response(told.get(key));
    };
    window.refresh_often = async (times) => {
      const main = document.querySelector("main");
      for (let at = 0; at < times; at += 1) {
        const before = main.dataset.refreshed;
        window.heard.dispatchEvent(new MessageEvent("cycle"));
        while (main.dataset.refreshed === before) { await new Promise((go) => later(go, 1)); }
      }
      return main.dataset.refreshed;
    };"""


@pytest.mark.parametrize("address", ["/", "/queues/BNL"])
def test_a_plot_is_drawn_over_the_picture(visitor: Visitor, address: str) -> None:
    visitor.open(address)
    visitor.page.locator(".plot.drawn canvas").first.wait_for()
    box = visitor.page.locator(".plot .bokeh").bounding_box()
    assert box is not None and box["height"] > 150 and box["width"] > 600
    assert visitor.page.locator(".plot > .picture").count() == 1


def test_without_scripts_the_picture_is_shown(chromium: Any, site: Any) -> None:
    context = chromium.new_context(base_url=site.url, java_script_enabled=False)
    page = context.new_page()
    page.goto("/queues/BNL")
    box = page.locator(".plot > .picture").bounding_box()
    assert box is not None and box["height"] > 60 and page.locator(".bokeh").count() == 0
    context.close()


def test_a_thousand_refreshes_leak_no_browser_memory(visitor: Visitor) -> None:
    visitor.page.add_init_script(AT_ONCE)
    visitor.open("/")
    visitor.page.locator(".plot.drawn canvas").first.wait_for()
    visitor.page.wait_for_function("window.heard")
    protocol = visitor.page.context.new_cdp_session(visitor.page)
    refresh(visitor, WARM)
    before = memory_usage(protocol)
    assert refresh(visitor, REFRESHES) >= WARM + REFRESHES
    after = memory_usage(protocol)
    growth = {name: after[name] - before[name] for name in before}
    print(f"after {REFRESHES} refreshes: {after}, grown by {growth}")
    assert growth["bytes"] < MOST_GROWN_BYTES and growth["nodes"] < MOST_GROWN_NODES, growth
    assert growth["documents"] <= 1 and growth["listeners"] < MOST_GROWN_NODES, growth
    assert visitor.page.locator(".plot.drawn .bokeh").count() == 1


def refresh(visitor: Visitor, times: int) -> int:
    """Refresh the page ``times`` times; returns the total number of refreshes."""
    return int(visitor.page.evaluate("(times) => window.refresh_often(times)", times))


def memory_usage(protocol: Any) -> dict[str, int]:
    """Memory and objects of the page after a garbage collection."""
    for _ in range(3):
        protocol.send("HeapProfiler.collectGarbage")
    counters = protocol.send("Memory.getDOMCounters")
    return {
        "bytes": int(protocol.send("Runtime.getHeapUsage")["usedSize"]),
        "nodes": counters["nodes"],
        "documents": counters["documents"],
        "listeners": counters["jsEventListeners"],
    }
