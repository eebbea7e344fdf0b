"""Ending jobs through PanDA's server. What it has no request for is left to its daemons."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from agents.alongside.panda_api import PandaApi, PandaRefuses
from agents.feeds.obtaining import surroundings_of
from agents.lifecycle.ending_options import Moved, PandaApiOptions
from agents.service.base import CycleContext
from broker.fetching.documents import NotFetched
from broker.lifecycle.model.panda_requests import kill_requests
from broker.lifecycle.statements import actions
from broker.lifecycle.statements.actions import ActionContext, JobAction

#: Count of jobs that fail: PanDA's Watcher finds and ends them by itself.
LEFT_TO_PANDA = "left_to_panda"


def parted(moves: Sequence[JobAction]) -> tuple[list[JobAction], list[JobAction]]:
    """Jobs that PanDA can be asked to end, killed or taken back, and those that fail, for which it has no request."""
    return [one for one in moves if one.action != "failed"], [one for one in moves if one.action == "failed"]


def carry_out(context: CycleContext, moves: Sequence[JobAction], by: ActionContext, options: PandaApiOptions) -> Moved:
    """Ask PanDA to end jobs, request after request; nothing in a dry run.

    Each request is recorded before the next one is made. When one fails, the others wait for the next cycle. When the
    jobs of the first one are all refused, the server is asked whom it takes us for: without the production role it
    refuses the others as well.

    Raises:
        PandaRefuses: the first request failed, or all jobs were refused.
        NotFetched: the credentials cannot be used.
    """
    if not context.writes:
        return Moved()
    asked = {move.pandaid: move for move in parted(moves)[0]}
    api = PandaApi(options.server(), surroundings_of(context, 0.5))
    done, identity = Moved(), None
    for request in kill_requests([(one.pandaid, one.code) for one in asked.values()], options.jobs_of_a_request):
        context.check()
        try:
            ended = api.kill(request)
            if not ended and not done.acted and identity is None:
                identity = api.identity()
                if not identity.production:
                    raise api.refuses_all(len(request.pandaids), identity)
        except (PandaRefuses, NotFetched) as error:
            if not done.acted and not done.skipped:
                raise
            return replace(done, notes=(f"the other jobs wait for the next cycle: {error}",))
        _record(context, [asked[pandaid] for pandaid in request.pandaids if pandaid in ended], by)
        refused = frozenset(request.pandaids) - ended
        done = replace(done, acted=_joined(done.acted, ended), skipped=_joined(done.skipped, refused))
    if identity is not None and not done.acted:
        raise api.refuses_all(len(done.skipped), identity)
    return done


def _joined(before: Iterable[int], more: Iterable[int]) -> tuple[int, ...]:
    return tuple(sorted({*before, *more}))


def _record(context: CycleContext, moves: Sequence[JobAction], by: ActionContext) -> None:
    if not moves:
        return
    with context.writing() as connection:
        actions.record(connection, moves, by)
