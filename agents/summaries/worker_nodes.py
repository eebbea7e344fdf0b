"""The agent that keeps the summary of worker nodes current, from which the levels of a queue's CPUs are known."""

from __future__ import annotations

from agents.summaries.summary_refreshing import SummaryAgent
from broker.store.summaries.worker_node_summaries import CPU_SUMMARY


class WorkerNodesAgent(SummaryAgent):
    """Keeps ``mv_worker_node_summary`` current from ``worker_node`` and ``worker_node_queue``."""

    name = "worker_nodes"
    title = "summary of the CPUs of worker nodes"
    summary = CPU_SUMMARY
