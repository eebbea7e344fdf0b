"""PanDA's own brokers, to which a call goes when the engine has no answer."""

from __future__ import annotations

import importlib
from typing import Any

#: PanDA's classes as its own configuration names them: (VO, brokerage) to module and class; else :data:`OTHER_VOS`.
PANDA_CLASSES = {
    ("atlas", "production_job"): "pandajedi.jedibrokerage.AtlasProdJobBroker:AtlasProdJobBroker",
    ("atlas", "analysis_job"): "pandajedi.jedibrokerage.AtlasAnalJobBroker:AtlasAnalJobBroker",
}
OTHER_VOS = "pandajedi.jedibrokerage.GenJobBroker:GenJobBroker"
TASK_CLASS = "pandajedi.jedibrokerage.AtlasProdTaskBroker:AtlasProdTaskBroker"


def named_class(name: str) -> Any:
    """Import the class that ``module:Class`` names.

    Raises:
        ImportError: there is no such module or class.
    """
    module, _, attribute = name.partition(":")
    target = getattr(importlib.import_module(module), attribute, None)
    if target is None:
        raise ImportError(f"{module} has no {attribute or 'class of an empty name'}; write module:Class")
    return target


def panda_job_broker(vo: str, brokerage: str, own: str | None) -> Any:
    """PanDA's class for job brokerage, or the one that the operator named."""
    return named_class(own or PANDA_CLASSES.get((vo, brokerage), OTHER_VOS))
