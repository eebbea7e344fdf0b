"""The page as part of the HTTP API's application."""

from __future__ import annotations

import importlib
from collections.abc import Callable

from broker.api.app import Parts
from broker.api.configuration import ApiConfiguration
from broker.feature import pages
from broker.web.rendering import no_page
from broker.web.sessions import LoginCodes, SessionCookie, Sessions


def page_parts(configuration: ApiConfiguration, token: str | None, steady_s: Callable[[], float]) -> Parts:
    """Return the parts of the application, including the page.

    Args:
        configuration: content of ``config/api.yaml``.
        token: token of this machine; None if issuers are configured.
        steady_s: a clock that never goes back.
    """
    sessions, codes = Sessions(steady_s, configuration.web.session_s), LoginCodes(steady_s)
    routers = tuple(importlib.import_module(module).router for module in pages())
    login = importlib.import_module("broker.web.routes.login").login_router(sessions, token, codes, configuration)
    return Parts(
        local_token=token,
        identify=(SessionCookie(sessions),),
        routers=(*routers, login),
        refused=no_page,
        login_code=codes.make if token is not None else None,
    )
