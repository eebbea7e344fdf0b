"""End jobs through PanDA's server. Jobs for which it has no request are left to its daemons."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from agents.alongside.panda_api import PandaApi, PandaRefuses
from agents.feeds.obtaining import surroundings_of
from agents.lifecycle.ending_options import MoveOutcome, PandaApiOptions
from agents.service.base import CycleContext
from broker.fetching.documents import NotFetched
from broker.lifecycle.model.panda_requests import kill_requests
from broker.lifecycle.statements import actions
from broker.lifecycle.statements.actions import ActionContext, JobAction

#: Count of jobs that fail: PanDA's Watcher finds and ends them by itself.
LEFT_TO_PANDA = "left_to_panda"


def parted(moves: Sequence[JobAction]) -> tuple[list[JobAction], list[JobAction]]:
    """Split jobs into those PanDA ends on request (killed or taken back), and failing ones, for which it has none."""
    return [move for move in moves if move.action != "failed"], [move for move in moves if move.action == "failed"]


def carry_out(
    context: CycleContext, moves: Sequence[JobAction], by: ActionContext, options: PandaApiOptions
) -> MoveOutcome:
    """Ask PanDA to end jobs, request by request; a dry run ends none.

    Each request is recorded before the next one is made. When one fails, the others wait for the next cycle. When all
    jobs of the first one are refused, the server is asked for the identity that it sees: without the production role it
    refuses the others as well.

    Raises:
        PandaRefuses: the first request failed, or all jobs were refused.
        NotFetched: the credentials cannot be used.
    """
    if not context.writes:
        return MoveOutcome()
    killable = {move.pandaid: move for move in parted(moves)[0]}
    api = PandaApi(options.server(), surroundings_of(context, 0.5))
    moved, identity = MoveOutcome(), None
    for request in kill_requests([(move.pandaid, move.code) for move in killable.values()], options.jobs_of_a_request):
        context.check()
        try:
            ended = api.kill(request)
            if not ended and not moved.acted and identity is None:
                identity = api.identity()
                if not identity.production:
                    raise api.refuses_all(len(request.pandaids), identity)
        except (PandaRefuses, NotFetched) as error:
            if not moved.acted and not moved.skipped:
                raise
            return replace(moved, notes=(f"the other jobs wait for the next cycle: {error}",))
        _record(context, [killable[pandaid] for pandaid in request.pandaids if pandaid in ended], by)
        refused = frozenset(request.pandaids) - ended
        moved = replace(moved, acted=_joined(moved.acted, ended), skipped=_joined(moved.skipped, refused))
    if identity is not None and not moved.acted:
        raise api.refuses_all(len(moved.skipped), identity)
    return moved


def _joined(before: Iterable[int], further: Iterable[int]) -> tuple[int, ...]:
    return tuple(sorted({*before, *further}))


def _record(context: CycleContext, moves: Sequence[JobAction], by: ActionContext) -> None:
    if not moves:
        return
    with context.writing() as connection:
        actions.record(connection, moves, by)
