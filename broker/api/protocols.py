"""Which protocol reads requests: the one in C where its package is installed, else the one in Python."""

from __future__ import annotations

import asyncio
from importlib.util import find_spec

from broker.api.patient_h11 import PatientH11


def protocol(head_within_s: float) -> type[asyncio.Protocol]:
    """HTTP/1.1 with a deadline of ``head_within_s`` seconds for the head of each request."""
    base: type[asyncio.Protocol] = PatientH11
    if find_spec("httptools") is not None:
        from broker.api.patient_httptools import PatientHttpTools

        base = PatientHttpTools
    return type(base.__name__, (base,), {"head_within_s": head_within_s})
