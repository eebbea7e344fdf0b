"""A page of one list, whose lines link to pages of single items."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fastapi import Response
from markupsafe import Markup, escape
from pydantic import BaseModel
from starlette.requests import Request

from broker.web.formats import text
from broker.web.rendering import for_reader, show


def show_list(
    request: Request,
    content: BaseModel,
    field: str,
    title: str,
    sentence: str,
    columns: Sequence[str],
    cells: Callable[[Any], Sequence[object]],
    none: str,
    further: str | None = None,
) -> Response:
    """Return a page of one list; ``cells`` are built from what the reader may see."""
    lines = getattr(for_reader(request, content), field)
    rows = [[cell if isinstance(cell, Markup) else escape(text(cell)) for cell in cells(line)] for line in lines]
    return show(
        request,
        "list",
        content,
        title=title,
        items=field,
        sentence=sentence,
        columns=list(columns),
        nothing=none,
        further=further,
        lines=lambda: rows,
    )


def link_to(address: str, name: object) -> Markup:
    """Return a link with any text."""
    return Markup('<a href="{}">{}</a>').format(address, text(name))
