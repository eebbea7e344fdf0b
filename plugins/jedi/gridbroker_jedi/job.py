"""Job brokers for ``[jobbroker] modConfig`` of JEDI.

Source: PanDA JEDI 1.0.4, ``JobBrokerBase`` and ``JobGenerator``: calls, return codes and what is done with them.
"""

from __future__ import annotations

import logging
from typing import Any

from pandacommon.pandalogger.PandaLogger import PandaLogger
from pandajedi.jedibrokerage.JobBrokerBase import JobBrokerBase
from pandajedi.jedicore import Interaction
from pandajedi.jedicore.MsgWrapper import MsgWrapper

from gridbroker_jedi import answer as answers
from gridbroker_jedi.answer import Answer, UnusableAnswerError
from gridbroker_jedi.chunk import tables_of
from gridbroker_jedi.decide import ANALYSIS, GENERIC, PRODUCTION
from gridbroker_jedi.fallback import panda_job_broker
from gridbroker_jedi.mirror import OwnTask
from gridbroker_jedi.service import LeftToPandaError, NoDecisionError, service, start

logger: logging.Logger = PandaLogger().getLogger(__name__.split(".")[0])
#: Waiting does not count towards the time-out of pending tasks; releases before 1.0.4 do not have it.
SC_WAITING = getattr(Interaction, "SC_WAITING", Interaction.SC_FAILED)


class GridJobBroker(JobBrokerBase):  # type: ignore[misc]
    """Asks gridbroker's production job brokerage for the queues of a chunk."""

    #: The one that decides.
    brokerage = PRODUCTION

    def __init__(self, ddmIF: Any, taskBufferIF: Any) -> None:
        """Keep the arguments for the fallback; connections are opened in the background."""
        JobBrokerBase.__init__(self, ddmIF, taskBufferIF)
        self._panda: Any = None
        start(self.brokerage)

    def doBrokerage(
        self,
        taskSpec: Any,
        cloudName: Any,
        inputChunk: Any,
        taskParamMap: Any,
    ) -> tuple[Any, Any]:
        """Return the status code, and the chunk with its candidates."""
        master = inputChunk.masterDataset
        log = MsgWrapper(logger, f"<jediTaskID={taskSpec.jediTaskID} datasetID={getattr(master, 'datasetID', None)}>")
        name = self.brokerage
        try:
            broker = service()
        except Exception as error:
            # a wrong configuration must not stop JEDI: PanDA's own class goes on
            log.error(f"gridbroker cannot be configured: {error}")
            return self._fall_back(None, taskSpec, cloudName, inputChunk, taskParamMap)
        try:
            own = OwnTask.of_chunk(self.taskBufferIF, taskSpec, inputChunk)
            answer = broker.chunk(name, tables_of(taskSpec, inputChunk), self._placed, own)
            answers.check(answer, self.siteMapper.checkSite, _file_ids(inputChunk))
        except LeftToPandaError as error:
            broker.count(name, "left_to_panda", error.reason)
            log.info(f"left to PanDA's own brokerage by the switch: {error.reason}")
            own_class = broker.settings.fallback_class
            return self._fall_back(own_class, taskSpec, cloudName, inputChunk, taskParamMap)
        except (NoDecisionError, UnusableAnswerError) as error:
            reason = error.reason if isinstance(error, NoDecisionError) else str(error).partition(":")[0]
            return self._without(broker, log, name, reason, str(error), (taskSpec, cloudName, inputChunk, taskParamMap))
        except Exception as error:
            detail = f"{type(error).__name__}: {error}"
            log.error(f"gridbroker failed: {detail}")
            return self._without(broker, log, name, "error", detail, (taskSpec, cloudName, inputChunk, taskParamMap))
        broker.count(name, "decided", answer.decision.outcome)
        return self._answered(broker.settings.explanation_url, log, answer, taskSpec, inputChunk)

    def _placed(self, names: Any) -> dict[str, int]:
        """Jobs placed in this cycle of JEDI's, by unified queue."""
        return answers.live_jobs(names, self.getLiveCount) if self.liveCounter is not None else {}

    def _answered(self, link: str | None, log: Any, answer: Answer, task_spec: Any, chunk: Any) -> tuple[Any, Any]:
        decision = answer.decision
        if not answer.candidates:
            text = answers.dialog(decision, link)
            log.info(text)
            task_spec.setErrDiag(text)
            return (SC_WAITING if decision.outcome == "throttled" else self.SC_FAILED), chunk
        answers.fill(answer, chunk, task_spec)
        names = ",".join(f"{one.name}:{one.weight:.4g}" for one in answer.candidates)
        log.info(f"gridbroker: {len(answer.candidates)} candidates {names} criteria=+use")
        if not chunk.siteCandidates:
            # all of them are for jumbo jobs: JEDI lets the task wait for those
            return self.SC_FAILED, chunk
        return self.SC_SUCCEEDED, chunk

    def _without(
        self, broker: Any, log: Any, name: str, reason: str, detail: str, call: tuple[Any, Any, Any, Any]
    ) -> tuple[Any, Any]:
        """Without an answer, ask PanDA's own class or let the task wait."""
        task_spec, cloud, chunk, parameters = call
        if broker.settings.fallback == "wait":
            broker.count(name, "waits", reason)
            log.warning(f"gridbroker has no decision, the task waits: {detail}")
            task_spec.setErrDiag(f"gridbroker: no decision: {detail}"[:510])
            return SC_WAITING, chunk
        broker.count(name, "fell_back", reason)
        log.warning(f"gridbroker has no decision, falling back to PanDA's own brokerage: {detail}")
        return self._fall_back(broker.settings.fallback_class, task_spec, cloud, chunk, parameters)

    def _fall_back(self, own: str | None, task_spec: Any, cloud: Any, chunk: Any, parameters: Any) -> tuple[Any, Any]:
        if self._panda is None:
            broker = panda_job_broker(task_spec.vo, self.brokerage, own)(self.ddmIF, self.taskBufferIF)
            broker.vo, broker.prodSourceLabel = getattr(self, "vo", None), getattr(self, "prodSourceLabel", None)
            self._panda = broker
        panda = self._panda
        panda.setLiveCounter(self.liveCounter)
        panda.lockID, panda.baseLockID, panda.testMode = self.lockID, self.baseLockID, self.testMode
        panda.set_task_common_dict(self.task_common)
        answer: tuple[Any, Any] = panda.doBrokerage(task_spec, cloud, chunk, parameters)
        return answer


class GridAnalysisJobBroker(GridJobBroker):
    """Asks gridbroker's analysis job brokerage for the queues of a chunk."""

    brokerage = ANALYSIS


class GridGenericJobBroker(GridJobBroker):
    """Asks gridbroker's generic job brokerage for the queues of a chunk: in the place of PanDA's GenJobBroker."""

    brokerage = GENERIC

    def _answered(self, link: str | None, log: Any, answer: Answer, task_spec: Any, chunk: Any) -> tuple[Any, Any]:
        result = super()._answered(link, log, answer, task_spec, chunk)
        if self.liveCounter is not None:
            # serialised cycles of JEDI add the jobs that they have placed
            for candidate in chunk.siteCandidates.values():
                candidate.nQueuedJobs = 0
        return result


def _file_ids(chunk: Any) -> frozenset[int]:
    return frozenset(file.fileID for spec in chunk.getDatasets(includePseudo=True) for file in spec.Files)
