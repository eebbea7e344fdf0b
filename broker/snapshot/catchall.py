"""Looking up a queue's free-form settings: the ``params`` dictionary first, then the items of ``catchall``.

Source: PanDA data model, catchall and params keys.
"""

from __future__ import annotations

from typing import Any


class Catchall:
    """The free-form settings of one queue."""

    def __init__(self, catchall: str | None, params: dict[str, Any]) -> None:
        self._params = params
        self._items = [item.strip() for item in (catchall or "").split(",") if item.strip()]

    def flag(self, key: str) -> bool:
        """Whether the key is there: in ``params`` with any value, or as the beginning of an item."""
        return key in self._params or any(item.startswith(key) for item in self._items)

    def value(self, key: str) -> Any:
        """The value of the key, None when it has none."""
        if key in self._params:
            return self._params[key]
        prefix = f"{key}="
        return next((item[len(prefix) :] for item in self._items if item.startswith(prefix)), None)
