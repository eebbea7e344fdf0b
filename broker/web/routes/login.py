"""Logging in and out: by a one-time link, with the token of this machine, or at the issuer (OpenID)."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Response
from starlette.requests import Request
from starlette.responses import RedirectResponse

from broker.access.policies import KNOWN, OPEN
from broker.api.configuration import ApiConfiguration
from broker.api.guarded_route import allow
from broker.api.local_token import BadToken, LocalToken, refused
from broker.api.problems import Problem, unauthenticated
from broker.api.state import State, state_of
from broker.web.issuer_login import IssuerLogin
from broker.web.rendering import Form, back_to, html, page_router, sent_fields
from broker.web.sessions import COOKIE, LoginCodes, Sessions, is_from_here, set_cookie

BEGUN = "broker_login"
"""Cookie of a login under way: the browser that comes back must be the one that was sent."""
Text = Annotated[str | None, Query(max_length=4096)]


def login_router(
    sessions: Sessions, token: str | None, codes: LoginCodes, configuration: ApiConfiguration
) -> APIRouter:
    """Return the login routes for the sessions of one process.

    Args:
        sessions: storage of the sessions.
        token: token of this machine; None if issuers are configured.
        codes: codes of the printed links.
        configuration: content of ``config/api.yaml``.
    """
    router = page_router(tag="login")
    local = None if token is None else LocalToken(token)
    login = configuration.web.login
    at_issuer = None if login is None else IssuerLogin(login, configuration)

    @router.get("/login")
    @allow(OPEN)
    async def log_in(request: Request, code: Text = None) -> Response:
        """Begin a session by a printed link, or redirect to the issuer; without either, ask for the token."""
        if code is not None:
            if local is None or not codes.take(code):
                raise Problem(
                    401, "login_code_used", "the link is good once, and for a minute", "log in with the token"
                )
            return _begun(request, sessions.begin(local.identity), configuration)
        if at_issuer is not None:
            address, state = await at_issuer.begin(_callback(request))
            response = RedirectResponse(address, status_code=303)
            secure = request.url.scheme == "https"
            response.set_cookie(BEGUN, state, max_age=600, httponly=True, samesite="lax", secure=secure)
            return response
        context = {"title": "Log in", "local": local is not None}
        return html(request, "login", context)

    _add_callback(router, sessions, at_issuer, configuration)
    _add_form(router, sessions, local, configuration)
    _add_logout(router, sessions)
    return router


def _add_callback(
    router: APIRouter, sessions: Sessions, at_issuer: IssuerLogin | None, configuration: ApiConfiguration
) -> None:
    @router.get("/login/callback")
    @allow(OPEN)
    async def come_back(request: Request, api: State, code: Text = None, state: Text = None) -> Response:
        """Handle the redirect from the issuer."""
        if at_issuer is None or code is None or state is None or request.cookies.get(BEGUN) != state:
            raise Problem(400, "login_failed", "the issuer sent no code", "log in again")
        from broker.api.bearer import IssuedBearer  # the module that checks signatures takes long to import

        token = await at_issuer.exchange(code, state, _callback(request))
        bearer = next(identify for identify in state_of(request).identify if isinstance(identify, IssuedBearer))
        try:
            identity = await bearer.identify(token)
        except BadToken as error:
            raise refused(error) from None
        return _begun(request, sessions.begin(identity), configuration)


def _add_form(router: APIRouter, sessions: Sessions, local: LocalToken | None, configuration: ApiConfiguration) -> None:
    @router.post("/login")
    @allow(OPEN)
    async def show_token(request: Request) -> Response:
        """Begin a session with the token of this machine, as submitted by the form."""
        fields = await sent_fields(request)
        if not is_from_here(request):
            raise Problem(403, "form_from_elsewhere", "the form is none of this page", "open the page again")
        identity = None if local is None else local.identify(fields.get("token", "").strip())
        if identity is None:
            raise unauthenticated()
        return _begun(request, sessions.begin(identity), configuration)


def _add_logout(router: APIRouter, sessions: Sessions) -> None:
    @router.post("/logout")
    @allow(KNOWN)
    async def log_out(request: Request, fields: Form) -> Response:
        """End a session."""
        sessions.end(request.cookies.get(COOKIE))
        response = back_to("/")
        response.delete_cookie(COOKIE, path="/")
        return response


def _callback(request: Request) -> str:
    return str(request.url_for("come_back"))


def _begun(request: Request, key: str, configuration: ApiConfiguration) -> Response:
    response = back_to("/")
    response.headers["Referrer-Policy"] = "no-referrer"
    secure = request.url.scheme == "https"
    set_cookie(response, key, configuration.web.session_s, secure=secure)
    return response
