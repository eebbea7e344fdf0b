"""The task broker for ``[taskbroker] modConfig`` of JEDI.

Source: PanDA JEDI 1.0.4, ``TaskBrokerBase`` and ``TaskBroker``: calls, return codes and what the class has to write.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Container
from typing import Any

from pandacommon.pandalogger.PandaLogger import PandaLogger
from pandajedi.jedibrokerage import AtlasBrokerUtils
from pandajedi.jedibrokerage.TaskBrokerBase import TaskBrokerBase
from pandajedi.jedicore.MsgWrapper import MsgWrapper

from broker.domain.decisions import Decision
from gridbroker_jedi import answer as answers
from gridbroker_jedi.fallback import TASK_CLASS, named_class
from gridbroker_jedi.service import NoDecisionError, service, start

logger: logging.Logger = PandaLogger().getLogger(__name__.split(".")[0])
NAME = "production_task"
SEED_BITS = 31


class GridTaskBroker(TaskBrokerBase):  # type: ignore[misc]
    """Asks gridbroker's task brokerage for the nuclei of tasks."""

    def __init__(self, taskBufferIF: Any, ddmIF: Any) -> None:
        """Keep the arguments for the fallback; connections are opened in the background."""
        TaskBrokerBase.__init__(self, taskBufferIF, ddmIF)
        self._panda: Any = None
        start(NAME)

    def doCheck(self, taskSpecList: Any) -> tuple[Any, dict[int, Any]]:
        """Do nothing: no task needs a check before it is assigned."""
        return self.SC_SUCCEEDED, {}

    def doBrokerage(
        self,
        inputList: Any,
        vo: Any,
        prodSourceLabel: Any,
        workQueue: Any,
        resource_name: Any,
    ) -> Any:
        """Set the nucleus of each task; a task that gets none stays as it is, with the reason."""
        call = (inputList, vo, prodSourceLabel, workQueue, resource_name)
        log = MsgWrapper(logger, f"<vo={vo} label={prodSourceLabel} resource={resource_name}>")
        specs = _specs(inputList)
        world = [task for task, spec in specs.items() if spec.useWorldCloud()]
        if len(world) < len(specs):
            # PanDA's own class skips them as well
            log.warning(f"{len(specs) - len(world)} tasks of regional clouds are not brokered")
        try:
            broker = service()
            left = broker.left_tasks(prodSourceLabel, world)
            ours = [task for task in world if task not in left]
            decided = broker.tasks(str(vo), ours, secrets.randbits(SEED_BITS), self.taskBufferIF) if ours else []
        except NoDecisionError as error:
            log.warning(f"gridbroker has no decision: {error}")
            return self._fall_back(service(), log, error.reason, call)
        except Exception as error:
            log.error(f"gridbroker failed: {type(error).__name__}: {error}")
            return self._fall_back(None, log, "error", call)
        for one, nucleus in decided:
            self._write(log, specs[one.decision.jeditaskid], one.decision, nucleus, broker.settings.explanation_url)
            broker.count(NAME, "decided", one.decision.outcome)
        for reason in left.values():
            broker.count(NAME, "left_to_panda", reason)
        if left:
            log.info(f"{len(left)} tasks are left to PanDA's own task brokerage by the switch")
            return self._ask_panda((_only(inputList, left), *call[1:]))
        return self.SC_SUCCEEDED

    def _write(self, log: Any, spec: Any, decision: Decision, nucleus: str | None, link: str | None) -> None:
        task = spec.jediTaskID
        nucleus_spec = None if nucleus is None else self.siteMapper.getNucleus(nucleus)
        if nucleus_spec is None:
            text = answers.dialog(decision, link)
            if nucleus is not None:
                text = f"gridbroker: nucleus {nucleus} is not in PanDA's site map"
            log.info(f"jediTaskID={task} {text}")
            spec.resetChangedList()
            spec.setErrDiag(text)
            self.taskBufferIF.updateTask_JEDI(
                spec, {"jediTaskID": task}, oldStatus=["assigning"], updateDEFT=False, setFrozenTime=False
            )
            return
        _, outputs = self.taskBufferIF.getDatasetsWithJediTaskID_JEDI(task, ["output", "log"])
        written = self.taskBufferIF.setCloudToTasks_JEDI(
            {task: AtlasBrokerUtils.getDictToSetNucleus(nucleus_spec, outputs)}
        )
        log.info(f"jediTaskID={task} set nucleus={nucleus} with {written} criteria=+set")

    def _fall_back(self, broker: Any, log: Any, reason: str, call: tuple[Any, ...]) -> Any:
        if broker is not None and broker.settings.fallback == "wait":
            broker.count(NAME, "waits", reason)
            return self.SC_SUCCEEDED
        if broker is not None:
            broker.count(NAME, "fell_back", reason)
        log.warning(f"falling back to PanDA's own task brokerage: {reason}")
        return self._ask_panda(call)

    def _ask_panda(self, call: tuple[Any, ...]) -> Any:
        if self._panda is None:
            self._panda = named_class(TASK_CLASS)(self.taskBufferIF, self.ddmIF)
            self._panda.vo, self._panda.prodSourceLabel = (
                getattr(self, "vo", None),
                getattr(self, "prodSourceLabel", None),
            )
        return self._panda.doBrokerage(*call)


def _specs(input_list: Any) -> dict[int, Any]:
    """The tasks of JEDI's list by id."""
    return {item[0].jediTaskID: item[0] for _, items in input_list for item in items}


def _only(input_list: Any, tasks: Container[int]) -> list[Any]:
    """The part of JEDI's list that belongs to these tasks."""
    return [(task, items) for task, items in input_list if items and items[0][0].jediTaskID in tasks]
