"""Requests and answers: tokens, problems, pages, retries of what may be repeated."""

from __future__ import annotations

import json
import re
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from types import TracebackType
from typing import Any, cast

import httpx

from gridbroker_client.tokens import Token

Document = dict[str, Any]
V1 = "/api/v1"
TRIES = 3
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 30.0
_AGAIN = frozenset({429, 502, 503, 504})


def pause_s(number: int, retry_after: str | None, now: datetime) -> float:
    """Seconds to wait after a try: as long as the broker says, at most 30; else 0.5, 1, 2 and so on.

    Args:
        number: number of the try, from 0.
        retry_after: seconds or an HTTP date; None if the broker did not say.
        now: time of the answer (aware).
    """
    text = (retry_after or "").strip()
    if re.fullmatch("[0-9]+", text):
        wanted_s = float(text)
    else:
        try:
            at = parsedate_to_datetime(text)
        except (ValueError, OverflowError):
            wanted_s = FIRST_PAUSE_S * 2**number
        else:
            wanted_s = ((at if at.tzinfo else at.replace(tzinfo=UTC)) - now).total_seconds()
    return min(max(0.0, wanted_s), LONGEST_PAUSE_S)


class BrokerProblem(Exception):
    """The broker refused a request, or could not serve it.

    Attributes:
        status: the HTTP status.
        code: the reason code.
        detail: what was found.
        remedy: what to do; empty when there is nothing.
        exit_status: of a command that ends with this problem.
        request_id: identifies the request in the broker's log.
    """

    def __init__(self, status: int, document: Mapping[str, Any]) -> None:
        """``document``: the body of the problem."""
        self.status = status
        self.code = str(document.get("code") or "http_error")
        self.detail = str(document.get("detail") or "")
        self.remedy = str(document.get("remedy") or "")
        self.exit_status = int(document.get("exit_status") or 1)
        self.request_id = str(document.get("request_id") or "")
        super().__init__("; ".join(part for part in (self.code, self.detail, self.remedy) if part))


class BrokerUnreachable(Exception):
    """No broker answers at the address."""


class BrokerConnection:
    """Sends requests to one broker; a context manager that closes its connections.

    Args:
        server: address of the broker, without ``/api/v1``.
        token: the bearer token, or what returns it before each request; None: requests go without one.
        timeout_s: for each request.
        verify: whether certificates are checked, or the file of trusted ones.
        transport: of httpx, for tests.
        sleep: waits some seconds between two tries of a request.
    """

    def __init__(
        self,
        server: str,
        token: Token | str | None = None,
        *,
        timeout_s: float = 60.0,
        verify: bool | str = True,
        transport: httpx.BaseTransport | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._token = (lambda: token) if isinstance(token, str) else token
        self._sleep = sleep
        self._client = httpx.Client(base_url=server.rstrip("/"), timeout=timeout_s, verify=verify, transport=transport)

    def __enter__(self) -> BrokerConnection:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections to the server."""
        self._client.close()

    @property
    def has_token(self) -> bool:
        """Whether requests carry a token."""
        return bool(self._headers())

    def get(self, path: str, **parameters: Any) -> Document:
        """Send a GET request and return its answer."""
        return self._json(self._send("GET", path, params=_without_none(parameters)))

    def pages(self, path: str, **parameters: Any) -> Iterator[Document]:
        """Iterate over the items of a list in pages."""
        after: str | None = None
        while True:
            page = self.get(path, after=after, **parameters)
            yield from page["items"]
            after = page["next"]
            if after is None:
                return

    def send(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        content: bytes | None = None,
        if_match: int | None = None,
        **parameters: Any,
    ) -> Document:
        """Send a write with an idempotency key of its own, so that a retry cannot do it twice."""
        headers = {"Idempotency-Key": uuid.uuid4().hex}
        if if_match is not None:
            headers["If-Match"] = str(if_match)
        options: dict[str, Any] = {"params": _without_none(parameters), "headers": headers}
        options |= {"content": content} if content is not None else {} if body is None else {"json": body}
        return self._json(self._send(method, path, **options))

    def events(self, since: str | None = None) -> Iterator[Document]:
        """Iterate over events as they happen; ``since``: the ``id`` of the last event that was seen."""
        headers = {"Accept": "text/event-stream", **self._headers()}
        if since is not None:
            headers["Last-Event-ID"] = since
        with self._client.stream("GET", f"{V1}/events", headers=headers, timeout=None) as answer:
            if answer.status_code >= 400:
                answer.read()
                self._json(answer)
            cursor = ""
            for line in answer.iter_lines():
                name, _, value = line.partition(": ")
                if name == "id":
                    cursor = value
                elif name == "data":
                    yield {**json.loads(value), "id": cursor}

    def _headers(self) -> dict[str, str]:
        token = None if self._token is None else self._token()
        return {} if not token else {"Authorization": f"Bearer {token}"}

    def _send(self, method: str, path: str, **options: Any) -> httpx.Response:
        headers = {**self._headers(), **options.pop("headers", {})}
        number = 0
        while True:
            retry_after: str | None = None
            try:
                answer = self._client.request(method, f"{V1}/{path}", headers=headers, **options)
            except httpx.TransportError as error:
                if number == TRIES - 1:
                    raise BrokerUnreachable(f"{self._client.base_url}: {error}") from error
            else:
                if answer.status_code not in _AGAIN or number == TRIES - 1:
                    return answer
                retry_after = answer.headers.get("Retry-After")
            self._sleep(pause_s(number, retry_after, datetime.now(UTC)))
            number += 1

    @staticmethod
    def _json(answer: httpx.Response) -> Document:
        try:
            document = answer.json()
        except ValueError:
            document = {"code": "no_json", "detail": f"HTTP status {answer.status_code} without JSON"}
            raise BrokerProblem(answer.status_code, document) from None
        if answer.status_code >= 400:
            raise BrokerProblem(answer.status_code, document if isinstance(document, dict) else {})
        return cast(Document, document)


def _without_none(parameters: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in parameters.items() if value is not None}
