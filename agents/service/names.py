"""The names of the agents that this installation has, known without loading any of them."""

from __future__ import annotations

from broker.brokerages.offered import offered

CLASSES = {
    "features": "agents.formats.features:FeaturesAgent",
    "site_class": "agents.classes.site_class:SiteClassAgent",
    "task_class": "agents.classes.task_class:TaskClassAgent",
    "share_usage": "agents.classes.share_usage:ShareUsageAgent",
    "timeouts": "agents.lifecycle.timeouts:TimeoutsAgent",
    "gpu_summary": "agents.grid.worker_nodes:GpuSummaryAgent",
    "worker_nodes": "agents.grid.worker_nodes:WorkerNodesAgent",
    "fast_rebrokerage": "agents.lifecycle.fast_rebrokerage:FastRebrokerageAgent",
    "analysis_rebrokerage": "agents.lifecycle.analysis_rebrokerage:AnalysisRebrokerageAgent",
    "activation": "agents.pilots.activation:ActivationAgent",
    "submit_pool_refresh": "agents.pools.submit_pool_refresh:SubmitPoolRefreshAgent",
    "submit_pool_cleanup": "agents.pools.submit_pool_cleanup:SubmitPoolCleanupAgent",
    "task_input": "agents.tasks.task_input:TaskInputAgent",
    "completion": "agents.pilots.completion:CompletionAgent",
    "pilot_activity": "agents.pilots.pilot_activity:PilotActivityAgent",
    "cric": "agents.feeds.cric:CricAgent",
    "rucio_space": "agents.feeds.rucio_space:RucioSpaceAgent",
    "rucio_replicas": "agents.feeds.rucio_replicas:RucioReplicasAgent",
    "rucio_quota": "agents.feeds.rucio_quota:RucioQuotaAgent",
    "network": "agents.feeds.network:NetworkAgent",
    "cleanup": "agents.upkeep.cleanup:CleanupAgent",
}
"""Agents that are no brokerages, as ``module:class``."""

_SHIPPED = ("production_task", "production_job", "analysis_job", "generic_job")

BROKERAGES = (*(name for name in _SHIPPED if name in offered()), *(name for name in offered() if name not in _SHIPPED))
"""Names of the brokerages, this distribution's first, in the order in which work passes through them."""

NAMES = (*BROKERAGES, *CLASSES)
"""Names of all agents. Each brokerage is one."""
