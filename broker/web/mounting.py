"""The page as a part of the application of the HTTP API."""

from __future__ import annotations

import importlib
from collections.abc import Callable

from broker.api.app import Parts
from broker.api.configuration import ApiConfiguration
from broker.feature import pages
from broker.web.rendering import no_page
from broker.web.sessions import LoginCodes, SessionCookie, Sessions


def page_parts(configuration: ApiConfiguration, token: str | None, steady_s: Callable[[], float]) -> Parts:
    """What the application is made of with the page.

    Args:
        configuration: ``config/api.yaml``.
        token: of this machine; None where issuers count.
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
