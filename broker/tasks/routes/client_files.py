"""Files of panda-client and of its jobs: archives of programs, the transformation, how to log in.

Jobs present no token: whoever knows the name of an archive, which has a UUID in it, may fetch it. Source: panda-client
2.2.0, ``Client.putFile``, ``openidc_utils``; panda-server, ``api/v1/file_server_api.py``.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Annotated, Any

from fastapi import Path, Response, UploadFile
from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request

from broker.access.policies import CLIENT_SUBMIT, OPEN
from broker.api.guarded_route import allow, guarded_router
from broker.api.problems import Problem
from broker.api.state import State, Who
from broker.tasks.answers.sandboxes import find_sandbox, keep_sandbox, read_sandbox
from broker.tasks.routes.client_route import ClientAnswer, client_router, own_name, success_answer

router = client_router()
FILE = Annotated[str, Path(max_length=100, pattern=r"^[A-Za-z0-9._-]+$")]


class Archive(BaseModel):
    """The identification of an archive before its upload.

    Attributes:
        file_size: size in bytes.
        checksum: CRC-32 of the uncompressed content, from the last bytes of the archive.
    """

    model_config = ConfigDict(extra="forbid")
    file_size: Annotated[int, Field(ge=0, le=2**62, strict=True)]
    checksum: Annotated[int, Field(ge=0, lt=2**32, strict=True)]


@router.post("/file_server/validate_cache_file", response_model=ClientAnswer)
@allow(CLIENT_SUBMIT)
def find_archive(request: Request, api: State, who: Who, body: Archive) -> Response:
    """Find an archive of the caller with this content: ``FOUND:HOST:NAME``, or ``NOTFOUND``."""
    name = find_sandbox(api.database, own_name(who), body.file_size, body.checksum, api.now())
    host = request.url.hostname or ""
    return success_answer(
        message="NOTFOUND" if name is None else f"FOUND:{f'[{host}]' if ':' in host else host}:{name}"
    )


@router.post("/file_server/upload_cache_file", response_model=ClientAnswer)
@allow(CLIENT_SUBMIT, body_bytes="sandbox_body_bytes")
def upload_archive(api: State, who: Who, file: UploadFile) -> Response:
    """Store an archive for the jobs of the caller's tasks; nothing is overwritten."""
    limits = api.configuration.limits
    name = keep_sandbox(
        api.database,
        own_name(who),
        file.filename or "",
        file.file.read(),
        limits.sandbox_bytes,
        limits.sandboxes_of_user_bytes,
        api.now(),
    )
    return success_answer(name, "True")


plain_routes = guarded_router("", tag="panda-client")


@plain_routes.get("/cache/{name}", response_class=Response, responses={200: {"content": {"application/gzip": {}}}})
@allow(OPEN)
def fetch_archive(api: State, name: FILE) -> Response:
    """Download an archive; anyone who knows its name may."""
    return Response(read_sandbox(api.database, name, api.now()), media_type="application/gzip")


@plain_routes.get("/trf/user/{name}", response_class=Response, responses={200: {"content": {"text/x-python": {}}}})
@allow(OPEN)
def fetch_transformation(name: FILE) -> Response:
    """Download the transformation of tasks submitted by ``prun``: a script for the pilot to run."""
    if name != "runGen":
        raise Problem(404, "not_found", f"there is no transformation {name}", "ask for /trf/user/runGen")
    return Response(transformation(), media_type="text/x-python; charset=utf-8")


@cache
def transformation() -> bytes:
    """The script, as it is installed."""
    return files("broker.tasks.routes").joinpath("run_gen.py").read_bytes()


class HowToLogIn(BaseModel):
    """Where a user's client gets a token, by the device flow (RFC 8628)."""

    oidc_config_url: str
    client_id: str
    client_secret: str
    audience: str
    vo: str


@plain_routes.get("/auth/{name}", response_model=HowToLogIn)
@allow(OPEN)
def how_to_log_in(api: State, name: FILE) -> Any:
    """Get the login settings of a VO: ``/auth/VO_auth_config.json``; the client secret in them is no secret."""
    login = api.configuration.panda_client.login
    vo = name.removesuffix("_auth_config.json")
    if login is None or vo == name:
        remedy = "set panda_client.login in config/api.yaml, or give the client a token"
        raise Problem(404, "no_login", "there is no login for panda-client here", remedy)
    return Response(
        HowToLogIn(
            oidc_config_url=f"{login.issuer.rstrip('/')}/.well-known/openid-configuration",
            vo=vo,
            **login.model_dump(exclude={"issuer"}),
        ).model_dump_json(),
        media_type="application/json",
    )


router.routes.extend(plain_routes.routes)
