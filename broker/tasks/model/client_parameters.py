"""Turns what ``prun`` of panda-client submits into task parameters of a standalone installation. Pure.

Source: panda-client 2.2.0, ``PrunScript``; what upstream's refiner adds to it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from broker.errors import Refused
from broker.tasks.model.verbs import ENDED

VO_OF_PRUN = "atlas"
"""What ``prun`` writes without ``--vo``."""
TRANSFORMATION = "/trf/user/runGen"
"""Where this server has the transformation: ``prun`` names none."""
_ENDED_WITHOUT_OUTPUT = ("failed", "aborted", "broken")
_EMPTY: tuple[Any, ...] = ("", [], {}, None)


class SameName(Refused):
    """The user has a task of that name, and ``prun`` allows only one."""

    code = "same_name"
    http_status = 409


@dataclass(frozen=True)
class ClientTask:
    """A task as a client submits it.

    Attributes:
        parameters: the task parameters; empty ones are ignored.
        user: who submits, whatever the parameters say.
        address: of this server as the client calls it, without a path.
        transformation: path or address of another transformation than that of this server; None: that of this server.
        parent: the task whose output is read, as the call names it.
    """

    parameters: Mapping[str, Any]
    user: str
    address: str
    transformation: str | None = None
    parent: int | None = None


@dataclass(frozen=True)
class AdaptedParameters:
    """Task parameters as the refiner takes them, and notes on what was changed."""

    parameters: Mapping[str, Any]
    notes: tuple[str, ...] = ()


def adapted(task: ClientTask, vo: str) -> AdaptedParameters:
    """The parameters of a task with what the client leaves to the server.

    ``vo`` is that of the installation, which counts where ``prun`` writes its default.
    """
    parameters: dict[str, Any] = {name: value for name, value in task.parameters.items() if value not in _EMPTY}
    notes = []
    if parameters.get("vo") == VO_OF_PRUN and vo != VO_OF_PRUN:
        parameters["vo"] = vo
        notes.append(f"vo is {vo}, that of this installation (prun writes {VO_OF_PRUN} where --vo is not said)")
    parameters.setdefault("sourceURL", task.address)
    if "transPath" not in parameters:
        parameters["transPath"] = task.transformation or f"{parameters['sourceURL']}{TRANSFORMATION}"
    if task.parent is not None:
        parameters["parent_tid"] = task.parent
    items = parameters.get("jobParameters")
    if isinstance(items, list):
        parameters["jobParameters"] = [_without_consolidate(item) for item in items]
    return AdaptedParameters(parameters, tuple(notes))


def _without_consolidate(item: Any) -> Any:
    """An item without the name of the container into which upstream puts datasets that it does not expand."""
    if not isinstance(item, Mapping):
        return item
    return {key: value for key, value in item.items() if key != "consolidate"}


def check_same_name(name: str, task: int, status: str) -> None:
    """Refuse a second task of one name, unless the first has ended without output.

    Raises:
        SameName: with the existing task.
    """
    if status in _ENDED_WITHOUT_OUTPUT:
        return
    state = f"has ended ({status})" if status in ENDED else f"is {status}"
    what = f"you have a task {name} already: jediTaskID={task} {state}"
    raise SameName(what, "uniqueTaskName", f"name another --outDS, or see pbook: retry({task}), kill({task})")
