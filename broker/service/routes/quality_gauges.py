"""The gauges that say how good decisions are. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from prometheus_client.core import GaugeMetricFamily, Metric

from broker.service.statements.metric_quality import NewestQuality

_OF = ("brokerage", "vo", "placer")


def quality_gauges(newest: Iterable[NewestQuality]) -> Iterator[Metric]:
    """Of the newest measured cycle of each brokerage."""
    regret = GaugeMetricFamily(
        "broker_decision_regret_hs06_hours", "What a cycle cost more than the best placement of its jobs.", labels=_OF
    )
    ratio = GaugeMetricFamily(
        "broker_decision_regret_ratio", "The same, as a part of what the best placement costs.", labels=_OF
    )
    vain = GaugeMetricFamily(
        "broker_decision_regret_bytes_ratio", "Input that is moved in vain, as a part of all input.", labels=_OF
    )
    share = GaugeMetricFamily(
        "broker_decision_regret_share_hs06_hours", "The part of a share in the regret.", labels=(*_OF, "share")
    )
    took = GaugeMetricFamily("broker_decision_regret_measure_seconds", "It took to measure.", labels=_OF)
    for one in newest:
        of = (one.brokerage, one.vo, one.placer)
        regret.add_metric(of, one.regret_hs06h)
        took.add_metric(of, one.measure_s)
        if one.work_hs06h > 0:
            ratio.add_metric(of, one.regret_hs06h / one.work_hs06h)
        if one.input_gb > 0:
            vain.add_metric(of, one.vain_gb / one.input_gb)
        for name, hs06h in one.shares.items():
            share.add_metric((*of, name), hs06h)
    yield from (regret, ratio, vain, share, took)
