"""Somebody at the page in Chromium: clicks are counted, the world outside cannot be reached, errors are kept."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

HOSTILE = "<script>alert(1)</script>\"'\x1b[31m"
"""A name that a page must show as text, and the part of it that people see."""
HOSTILE_SHOWN = "<script>alert(1)</script>\"'\\x1b[31m"
MOST_CLICKS = 4
LOOPBACK = ("127.0.0.1", "::1", "localhost")


class Visitor:
    """A page in a browser context of its own.

    Args:
        context: of Playwright.
        token: of the machine.
    """

    def __init__(self, context: Any, token: str) -> None:
        self.clicks = 0
        self.opened: list[str] = []
        self.wrong: list[str] = []
        self.page = context.new_page()
        self.token = token
        context.route("**/*", self._pass_or_abort)
        self.page.on("console", lambda said: self._note(said.type == "error", f"console: {said.text}"))
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
        """Open an address as somebody who is not logged in, or who is by now."""
        self.opened.append(address)
        self.page.goto(address)

    def log_in(self) -> None:
        """Paste the token into the form."""
        self.page.goto("/login")
        self.page.get_by_label("token").fill(self.token)
        self.page.get_by_role("button", name="Log in").click()
        self.page.wait_for_url("**/")

    def click(self, what: Any) -> None:
        """Click, and count it."""
        self.clicks += 1
        what.click()

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
        """What the page says."""
        return str(self.page.locator("main").inner_text())

    def forgive(self, *parts: str) -> None:
        """Errors in the console that this journey is about, such as that of a refusal."""
        self.wrong = [text for text in self.wrong if not any(part in text for part in parts)]

    def check(self) -> None:
        """Not too many clicks, and nothing went wrong."""
        assert self.clicks <= MOST_CLICKS, f"{self.clicks} clicks"
        assert not self.wrong, self.wrong
