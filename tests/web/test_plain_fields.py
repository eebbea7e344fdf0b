"""Fields of answers as templates read them: the same as converting the whole answer."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import computed_field

from broker.api import plain as plain_values
from broker.api.plain import plain
from broker.store.query_context import ResponseModel
from broker.web import plain_fields
from broker.web.plain_fields import PlainFields
from broker.web.rendering import environment


class Inner(ResponseModel):
    value: float


class Whole(ResponseModel):
    at: datetime
    inner: tuple[Inner, ...]
    items: dict[str, float | None]

    @computed_field  # type: ignore[prop-decorator]
    @property
    def twice(self) -> float:
        return 2 * self.inner[0].value


WHOLE = Whole(at=datetime(2026, 3, 4, tzinfo=UTC), inner=(Inner(value=2.0),), items={"a": float("inf")})


def test_the_fields_equal_those_of_the_plain_answer() -> None:
    assert dict(PlainFields(WHOLE)) == plain(WHOLE) and len(PlainFields(WHOLE)) == 4
    assert "nothing" not in PlainFields(WHOLE)
    with pytest.raises(KeyError):
        PlainFields(WHOLE)["model_fields"]


def test_a_template_reads_fields_like_attributes(monkeypatch: pytest.MonkeyPatch) -> None:
    converted: list[Any] = []

    def record(value: Any) -> Any:
        converted.append(value)
        return plain_values.plain(value)

    monkeypatch.setattr(plain_fields, "plain", record)
    text = '{{ answer.inner[0].value }} {{ answer["items"].a }} {{ answer.inner | length }}'
    template = environment().from_string(text)
    assert template.render(answer=PlainFields(WHOLE)) == "2.0 None 1"
    assert len(converted) == 2
