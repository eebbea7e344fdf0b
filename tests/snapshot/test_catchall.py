"""Free-form settings of a queue."""

from __future__ import annotations

from typing import Any

import pytest

from broker.snapshot.queue_rows import Catchall


@pytest.mark.parametrize(
    ("catchall", "params", "flag", "value"),
    [
        (None, {}, False, None),
        ("", {}, False, None),
        ("gpu", {}, True, None),
        ("gpu=2", {}, True, "2"),
        ("gpu=", {}, True, ""),
        ("gpus", {}, True, None),  # any item that begins with the key sets the flag
        ("a, gpu=2 ,b", {}, True, "2"),
        ("xgpu=2", {}, False, None),
        ("gpu=2,gpu=3", {}, True, "2"),
        ("gpu=a=b", {}, True, "a=b"),
        ("", {"gpu": 5}, True, 5),
        ("gpu=2", {"gpu": 5}, True, 5),  # params take precedence
        ("gpu=2", {"gpu": None}, True, None),  # presence is enough, whatever the value
        ("", {"gpu": False}, True, False),
        ("", {"gpus": 1}, False, None),  # in params the whole key must match
    ],
)
def test_look_up(catchall: str | None, params: dict[str, Any], flag: bool, value: Any) -> None:
    settings = Catchall(catchall, params)
    assert (settings.flag("gpu"), settings.value("gpu")) == (flag, value)
