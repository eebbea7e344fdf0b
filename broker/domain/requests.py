"""Former location of these names for rules of other distributions, kept for one release.

See :mod:`broker.domain.decisions`.
"""

from __future__ import annotations

from broker.domain.decisions import (
    CPUTIME as CPUTIME,
    IOINTENSITY as IOINTENSITY,
    OUTDISKCOUNT as OUTDISKCOUNT,
    RAMCOUNT as RAMCOUNT,
    REQUESTS as REQUESTS,
    WALLTIME as WALLTIME,
    WORKDISKCOUNT as WORKDISKCOUNT,
    Request as Request,
)
