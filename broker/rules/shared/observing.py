"""Where rules of other distributions found these; for one release, see :mod:`broker.rules.contract`."""

from __future__ import annotations

from broker.rules.contract import flag as flag
from broker.rules.contract import limit_number as limit_number
from broker.rules.contract import number as number
from broker.rules.contract import text as text
