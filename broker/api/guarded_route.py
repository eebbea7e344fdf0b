"""Routes with a policy: the sender is checked before the body is read, and the body is read within limits.

- A route without a policy cannot be created.
- Unknown query parameters are refused: a filter with a typo in its name would otherwise match everything.
- Request bodies are read within limits of size, time, compression and depth before anything parses them.
"""

from __future__ import annotations

import asyncio
import logging
import math
import zlib
from collections.abc import AsyncIterator, Callable, Coroutine, Set
from typing import Any, TypeVar

from fastapi import APIRouter
from fastapi.dependencies.models import Dependant
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from broker.access.policies import Identity, Policy, judge
from broker.api.idempotency import answered_once
from broker.api.problems import FieldProblem, Problem, problem_of, response_of, unauthenticated
from broker.api.state import identity_of, state_of
from broker.errors import did_you_mean
from broker.json_depth import is_too_deep

_GZIP = 16 + zlib.MAX_WBITS
_LESS = "send less, or in parts"


async def read_body(request: Request, most_bytes: int, within_s: float, depth: int) -> bytes:
    """Read the body of a request and unpack it; it is also stored where Starlette caches it.

    Args:
        request: a request whose body has not been read.
        most_bytes: maximum size, both as sent and after unpacking.
        within_s: seconds within which the whole body must arrive.
        depth: maximum nesting of JSON.

    Raises:
        Problem: 400, 408, 413 or 415, depending on the fault.
    """
    declared = request.headers.get("content-length")
    if declared is not None and (not declared.isdecimal() or len(declared) > 18):
        raise Problem(400, "bad_content_length", "Content-Length is no number")
    if declared is not None and int(declared) > most_bytes:
        raise _too_large(most_bytes)
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("identity", "gzip"):
        raise Problem(415, "unknown_content_encoding", "Content-Encoding may be gzip or identity")
    try:
        async with asyncio.timeout(within_s):
            packed = await _all_of(request.stream(), most_bytes)
    except TimeoutError:
        raise Problem(408, "body_too_slow", "the body did not come in time", headers={"Connection": "close"}) from None
    except ClientDisconnect:
        raise Problem(400, "client_disconnected", "the client went away") from None
    body = unpacked(packed, most_bytes) if encoding == "gzip" else packed
    if _is_json(request) and is_too_deep(body.decode("utf-8", "replace"), depth):
        raise Problem(400, "json_too_deep", f"the JSON nests deeper than {depth} levels")
    request._body = body
    return body


def unpacked(packed: bytes, most_bytes: int) -> bytes:
    """Unpack a gzip stream of one member to at most ``most_bytes``.

    Raises:
        Problem: it is not such a stream, is truncated, or would become larger.
    """
    machine = zlib.decompressobj(_GZIP)
    try:
        body = machine.decompress(packed, most_bytes + 1)
    except zlib.error:
        raise Problem(400, "bad_gzip", "the body is no gzip stream") from None
    if len(body) > most_bytes:
        raise _too_large(most_bytes)
    if not machine.eof or machine.unused_data:
        raise Problem(400, "bad_gzip", "the gzip stream is cut short, or followed by something else")
    return body


async def _all_of(stream: AsyncIterator[bytes], most_bytes: int) -> bytes:
    parts, size = [], 0
    async for part in stream:
        size += len(part)
        if size > most_bytes:
            raise _too_large(most_bytes)
        parts.append(part)
    return b"".join(parts)


def _too_large(most_bytes: int) -> Problem:
    return Problem(
        413, "body_too_large", f"the body is larger than {most_bytes} bytes", _LESS, headers={"Connection": "close"}
    )


def _is_json(request: Request) -> bool:
    return "json" in request.headers.get("content-type", "json").lower()


OF_ALL = frozenset({"fields", "format"})
"""Parameters of every answer: the requested fields, and for a page whether to return JSON."""
LONGEST_SHOWN = 100


def refuse_unknown(request: Request, known: Set[str]) -> None:
    """Refuse a request with a parameter that is neither in ``known`` nor accepted by every answer.

    Raises:
        Problem: 422, with the most similar name.
    """
    unknown = [name for name in request.query_params if name not in known and name not in OF_ALL]
    if not unknown:
        return
    names = sorted(known | {"fields"})
    errors = [
        FieldProblem(where=f"query.{name[:LONGEST_SHOWN]}", what="there is no such parameter") for name in unknown
    ]
    remedy = did_you_mean(unknown[0], names, f"known are {', '.join(names)}")
    detail = f"there is no parameter {unknown[0][:LONGEST_SHOWN]}"
    raise Problem(422, "unknown_parameter", detail, remedy, errors=errors[:50])


_log = logging.getLogger(__name__)
_WITH_BODY = frozenset({"POST", "PUT", "PATCH", "DELETE"})
Endpoint = TypeVar("Endpoint", bound=Callable[..., Any])


class MissingPolicy(TypeError):
    """A route does not say who may use it."""


def allow(policy: Policy, *, body_bytes: str = "body_bytes") -> Callable[[Endpoint], Endpoint]:
    """Declare the policy of an endpoint.

    Args:
        policy: who may use it.
        body_bytes: name of the limit for its body in ``limits`` of ``config/api.yaml``.
    """

    def declare(endpoint: Endpoint) -> Endpoint:
        endpoint.__dict__["policy"], endpoint.__dict__["body_bytes"] = policy, body_bytes
        return endpoint

    return declare


class GuardedRoute(APIRoute):
    """A route with the policy that its endpoint declares with :func:`allow`.

    Raises:
        MissingPolicy: the endpoint declares none.
    """

    also: frozenset[str] = frozenset()
    """Parameters of every route of this kind, in addition to its own."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        policy = getattr(endpoint, "policy", None)
        if not isinstance(policy, Policy):
            raise MissingPolicy(f"{path}: {endpoint.__module__}.{endpoint.__name__} declares no policy")
        self.policy = policy
        self.body_limit = str(endpoint.__dict__["body_bytes"])
        super().__init__(path, endpoint, **options)

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the handler, which turns every refusal into a problem, whatever was raised."""
        inner = super().get_route_handler()
        known = _query_names(self.dependant) | self.also

        async def handle(request: Request) -> Response:
            return await guarded(request, self.policy, self.body_limit, inner, known)

        return handle


def _query_names(dependant: Dependant) -> frozenset[str]:
    """Return the query parameters that an endpoint reads, directly or through its dependencies."""
    aliases = frozenset(parameter.alias for parameter in dependant.query_params)
    return aliases.union(*(_query_names(dependency) for dependency in dependant.dependencies))


async def guarded(
    request: Request,
    policy: Policy,
    body_limit: str,
    inner: Callable[[Request], Coroutine[Any, Any, Response]],
    parameters: Set[str] = frozenset(),
) -> Response:
    """Admit a request, read its body and return the answer of ``inner``; every refusal becomes a problem.

    Args:
        request: the request to answer.
        policy: who may use it.
        body_limit: name of the limit for its body in ``limits`` of ``config/api.yaml``.
        inner: makes the answer.
        parameters: the allowed query parameters.
    """
    try:
        await admit(request, policy)
        refuse_unknown(request, parameters)
        if request.method in _WITH_BODY:
            await _read(request, body_limit)
        if policy.writes:
            return await answered_once(request, policy, inner)
        return await inner(request)
    except Exception as error:
        return refusal(request, error)


V1 = "/api/v1"


def guarded_router(prefix: str = V1, *, tag: str) -> APIRouter:
    """Return a router whose routes all have a policy; ``prefix`` begins all its paths."""
    return APIRouter(prefix=prefix, tags=[tag], route_class=GuardedRoute)


async def admit(request: Request, policy: Policy) -> None:
    """Admit or refuse a request; once admitted, ``request.state.identity`` is its sender.

    Raises:
        Problem: 401, 403 or 429.
    """
    api = state_of(request)
    identity = await _identified(request)
    request.state.identity = identity
    address = request.client.host if request.client is not None else ""
    wait_s = api.limiter.wait_s(identity, address)
    if wait_s > 0:
        raise Problem(429, "too_many_requests", "slow down", headers={"Retry-After": str(math.ceil(wait_s))})
    demand(request, policy)


def demand(request: Request, policy: Policy) -> None:
    """Check an already identified sender against a policy.

    Raises:
        Problem: 401 or 403.
    """
    anonymous_read = state_of(request).configuration.anonymous_read
    answer = judge(policy, identity_of(request), anonymous_read=anonymous_read)
    if answer == "unauthenticated":
        raise unauthenticated()
    if answer == "forbidden":
        raise Problem(403, "forbidden", "this needs another role")


async def _identified(request: Request) -> Identity | None:
    for identify in state_of(request).identify:
        identity = await identify(request)
        if identity is not None:
            return identity
    return None


async def _read(request: Request, limit: str) -> None:
    limits = state_of(request).configuration.limits
    await read_body(request, getattr(limits, limit), limits.body_within_s, limits.json_depth)


def refusal(request: Request, error: Exception) -> Response:
    """Return the answer to a request that ended with ``error``, which is logged if it was unexpected."""
    request_id = getattr(request.state, "request_id", None)
    if isinstance(error, RequestValidationError):
        problem = _invalid(error)
    elif isinstance(error, HTTPException):
        problem = Problem(error.status_code, _http_code(error.status_code), "", headers=error.headers)
    else:
        problem = problem_of(error)
    request.state.problem = problem
    if problem.status == 500:
        fields = {"request_id": request_id, "method": request.method, "path": request.url.path}
        _log.error("request failed", exc_info=error, extra={"fields": fields})
    return response_of(problem, request_id)


def _http_code(status: int) -> str:
    return {404: "no_such_route", 405: "method_not_allowed", 400: "bad_request"}.get(status, "http_error")


def _invalid(error: RequestValidationError) -> Problem:
    """Describe the invalid fields of a request, without repeating their values."""
    problems = [
        FieldProblem(where=".".join(map(str, one["loc"]))[:200], what=str(one["msg"])[:200]) for one in error.errors()
    ]
    broken = any(one["type"] == "json_invalid" for one in error.errors())
    code = "bad_json" if broken else "invalid_request"
    detail = "; ".join(f"{problem.where}: {problem.what}" for problem in problems[:5])
    return Problem(400 if broken else 422, code, detail, "see the description of the API", errors=problems[:50])
