"""The agent that keeps the summary of GPUs current, on which requests for particular GPUs are judged."""

from __future__ import annotations

from agents.summaries.summary_refreshing import SummaryAgent
from broker.store.summaries.worker_node_summaries import GPU_SUMMARY


class GpuSummaryAgent(SummaryAgent):
    """Keeps ``mv_worker_node_gpu_summary`` current from ``worker_node_gpus`` and ``worker_node_queue``."""

    name = "gpu_summary"
    title = "summary of the GPUs of worker nodes"
    summary = GPU_SUMMARY
