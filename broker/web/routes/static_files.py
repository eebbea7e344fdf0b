"""The files that pages load: only ours, from the installed package, at addresses whose content never changes."""

from __future__ import annotations

from fastapi import Response
from starlette.requests import Request

from broker.access.policies import OPEN
from broker.api.guarded_route import allow
from broker.api.problems import Problem
from broker.web.rendering import page_router, static_file, static_paths

router = page_router(tag="static")
_TYPES = {"css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8"}


@router.get("/static/{digest}/{name}")
@allow(OPEN)
async def get_file(request: Request, digest: str, name: str) -> Response:
    """Get one of our style sheets or scripts."""
    if static_paths().get(name) != f"/static/{digest}/{name}":
        raise Problem(404, "no_such_file", "there is no such file")
    media_type = _TYPES[name.rpartition(".")[2]]
    headers = {"Cache-Control": "public, max-age=31536000, immutable"}
    return Response(static_file(name), headers=headers, media_type=media_type)


@router.get("/favicon.ico")
@allow(OPEN)
async def icon(request: Request) -> Response:
    """Answer 204: there is no icon."""
    return Response(status_code=204, headers={"Cache-Control": "public, max-age=86400"})
