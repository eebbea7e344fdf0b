"""Where rules of other distributions found these; for one release, see :mod:`broker.domain.decisions`."""

from __future__ import annotations

from broker.domain.decisions import CPUTIME as CPUTIME
from broker.domain.decisions import IOINTENSITY as IOINTENSITY
from broker.domain.decisions import OUTDISKCOUNT as OUTDISKCOUNT
from broker.domain.decisions import RAMCOUNT as RAMCOUNT
from broker.domain.decisions import REQUESTS as REQUESTS
from broker.domain.decisions import WALLTIME as WALLTIME
from broker.domain.decisions import WORKDISKCOUNT as WORKDISKCOUNT
from broker.domain.decisions import Request as Request
