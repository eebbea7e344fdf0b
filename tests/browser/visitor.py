"""A visitor in Chromium: counts clicks, blocks outside requests, and records errors."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

HOSTILE = "<script>alert(1)</script>\"'\x1b[31m"
"""A name that a page must show as text; ``HOSTILE_SHOWN`` is the text shown."""
HOSTILE_SHOWN = "<script>alert(1)</script>\"'\\x1b[31m"
MOST_CLICKS = 4
LOOPBACK = ("127.0.0.1", "::1", "localhost")


class Visitor:
    """A page in its own browser context.

    Args:
        context: browser context of Playwright.
        token: the local token.
    """

    def __init__(self, context: Any, token: str) -> None:
        self.clicks = 0
        self.opened: list[str] = []
        self.wrong: list[str] = []
        self.page = context.new_page()
        self.token = token
        context.route("**/*", self._pass_or_abort)
        self.page.on("console", lambda message: self._note(message.type == "error", f"console: {message.text}"))
        self.page.on("pageerror", lambda error: self._note(True, f"error: {error}"))
        self.page.on("dialog", self._refuse)

    def _pass_or_abort(self, route: Any) -> None:
        if urlsplit(route.request.url).hostname in LOOPBACK:
            route.continue_()
        else:
            self._note(True, f"asked for {route.request.url}")
            route.abort()

    def _refuse(self, dialog: Any) -> None:
        self._note(True, f"a script ran: {dialog.message}")
        dialog.dismiss()

    def _note(self, is_wrong: bool, text: str) -> None:
        if is_wrong:
            self.wrong.append(text)

    def open(self, address: str = "/") -> None:
        """Open an address with the current session, if any."""
        self.opened.append(address)
        self.page.goto(address)

    def log_in(self) -> None:
        """Paste the token into the form."""
        self.page.goto("/login")
        self.page.get_by_label("token").fill(self.token)
        self.page.get_by_role("button", name="Log in").click()
        self.page.wait_for_url("**/")

    def click(self, locator: Any) -> None:
        """Click, and count it."""
        self.clicks += 1
        locator.click()

    def follow(self, name: str, *, exact: bool = True) -> None:
        """Click the first link of this name."""
        self.click(self.page.get_by_role("link", name=name, exact=exact).first)

    def press(self, name: str) -> None:
        """Click the button of this name."""
        self.click(self.page.get_by_role("button", name=name, exact=True))

    def heading(self) -> str:
        """The heading of the page."""
        return str(self.page.locator("h1").inner_text())

    def main(self) -> str:
        """The text of the page."""
        return str(self.page.locator("main").inner_text())

    def forgive(self, *parts: str) -> None:
        """Drop recorded errors that this journey expects, such as the error of a refusal."""
        self.wrong = [text for text in self.wrong if not any(part in text for part in parts)]

    def check(self) -> None:
        """Check that there were few enough clicks and no errors."""
        assert self.clicks <= MOST_CLICKS, f"{self.clicks} clicks"
        assert not self.wrong, self.wrong
