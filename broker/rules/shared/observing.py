"""Former module of these functions, kept for one release for other distributions; see :mod:`broker.rules.contract`."""

from __future__ import annotations

from broker.rules.contract import flag as flag, limit_number as limit_number, number as number, text as text
