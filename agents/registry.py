"""The agents that this installation has, by name."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from agents.base import Agent
from agents.configuration import ConfigurationError
from agents.process import ProcessSettings

_CLASSES = {
    "features": "agents.features:FeaturesAgent",
    "production_task": "agents.production_task:ProductionTaskAgent",
    "production_job": "agents.production_job:ProductionJobAgent",
    "analysis_job": "agents.analysis_job:AnalysisJobAgent",
    "site_class": "agents.site_class:SiteClassAgent",
    "task_class": "agents.task_class:TaskClassAgent",
    "share_usage": "agents.share_usage:ShareUsageAgent",
    "timeouts": "agents.timeouts:TimeoutsAgent",
    "gpu_summary": "agents.gpu_summary:GpuSummaryAgent",
    "worker_nodes": "agents.worker_nodes:WorkerNodesAgent",
    "fast_rebrokerage": "agents.fast_rebrokerage:FastRebrokerageAgent",
    "analysis_rebrokerage": "agents.analysis_rebrokerage:AnalysisRebrokerageAgent",
    "activation": "agents.activation:ActivationAgent",
    "submit_pool_refresh": "agents.submit_pool_refresh:SubmitPoolRefreshAgent",
    "submit_pool_cleanup": "agents.submit_pool_cleanup:SubmitPoolCleanupAgent",
    "cleanup": "agents.cleanup:CleanupAgent",
}

NAMES = tuple(_CLASSES)
"""Names of all agents."""


def make(name: str, options: Mapping[str, Any], process: ProcessSettings) -> Agent[Any]:
    """The agent ``name`` with ``options`` as they stand in the configuration, in a process with these settings.

    Raises:
        KeyError: there is no such agent.
        ConfigurationError: an option is unknown or out of range.
    """
    module, _, class_name = _CLASSES[name].partition(":")
    agent_class: type[Agent[Any]] = getattr(importlib.import_module(module), class_name)
    try:
        return agent_class(agent_class.options_type.model_validate(dict(options)), process)
    except ValidationError as error:
        found = "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors())
        raise ConfigurationError(found, f"config/agents.yaml, options of {name}", "correct or remove them") from error
