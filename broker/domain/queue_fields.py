"""The fields of a queue that an operator may hold or try, and their values as text.

Source: PanDA data model, schedconfig_json.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

#: States of queues, in PanDA's words.
STATUSES = ("online", "offline", "test", "brokeroff", "paused", "standby")
_DAY_S = 86_400
_MB = 1e9


class BadFieldValue(ValueError):
    """The field cannot be pinned, or not at this value; ``accepts`` says what is accepted."""

    def __init__(self, what: str, accepts: str) -> None:
        super().__init__(what)
        self.accepts = accepts


@dataclass(frozen=True)
class NumberRange:
    """A number in a unit, between two inclusive bounds."""

    lowest: float
    highest: float
    unit: str
    whole: bool = True


Accepted = tuple[str, ...] | NumberRange | type[bool] | type[str]

#: Values accepted by each field: words, a range, a flag, or text.
FIELDS: Mapping[str, Accepted] = {
    "status": STATUSES,
    "type": ("production", "analysis", "unified", "special"),
    "capability": ("score", "mcore", "ucore", "himem"),
    "workflow": ("pull", "pull_ops", "pull_ups", "push"),
    "jobseed": ("std", "es", "eshigh", "all"),
    "corecount": NumberRange(0, 100_000, "cores"),
    "corepower": NumberRange(0, 10_000, "HS06 per core", whole=False),
    "maxtime": NumberRange(0, 3650 * _DAY_S, "s"),
    "mintime": NumberRange(0, 3650 * _DAY_S, "s"),
    "maxrss": NumberRange(0, _MB, "MB"),
    "minrss": NumberRange(0, _MB, "MB"),
    "maxwdir": NumberRange(0, _MB, "MB"),
    "maxinputsize": NumberRange(-1, _MB, "MB"),
    "maxdiskio": NumberRange(0, _MB, "kB/s per core"),
    "transferringlimit": NumberRange(0, _MB, "jobs"),
    "pledgedcpu": NumberRange(-1, _MB, "cores"),
    "direct_access_lan": bool,
    "direct_access_wan": bool,
    "is_cvmfs": bool,
    "wnconnectivity": str,
    "fairsharepolicy": str,
    "cloud": str,
    "catchall": str,
}
#: Settings in ``params`` or ``catchall`` that affect decisions. A flag counts by its presence.
PARAMETERS: Mapping[str, Accepted] = {
    "max_io_intensity": NumberRange(0, _MB, "kB/s", whole=False),
    "minEventsForJumbo": NumberRange(0, _MB, "events"),
    "jobChunkSize": NumberRange(0, _MB, "jobs"),
    "bareNucleus": ("only", "allow"),
    "secondaryNucleus": str,
    "useJumboJobs": bool,
    "use_only_local_data": bool,
    "grandly_unified": bool,
    "allow_no_pilot": bool,
    "allowed_processing": str,
    "excluded_processing": str,
}
#: Every field of a queue that a decision reads, held or not.
READ_FIELDS: Mapping[str, Accepted] = {
    **FIELDS,
    "releases": str,
    "space": NumberRange(0, _MB, "GB"),
    **PARAMETERS,
}
_LONGEST_TEXT = 4000


def field_value(field: str, text: str, fields: Mapping[str, Accepted] = FIELDS) -> str | int | float | bool:
    """Convert ``text`` to the value of one of ``fields``, as in CRIC.

    Raises:
        BadFieldValue: there is no such field, or it does not accept the value.
    """
    accepted = fields.get(field)
    if accepted is None:
        can = "can be held" if fields is FIELDS else "a decision reads"
        raise BadFieldValue(f"{field[:80]} is not a field that {can}", f"fields are {', '.join(fields)}")
    if accepted is bool:
        return _truth(text)
    if accepted is str:
        if not 0 < len(text) <= _LONGEST_TEXT or not text.isprintable():
            raise BadFieldValue("not a text", f"1 to {_LONGEST_TEXT} printable characters")
        return text
    if isinstance(accepted, tuple):
        if text not in accepted:
            raise BadFieldValue(f"no value of {field}", f"values are {', '.join(accepted)}")
        return text
    return _number(text, accepted) if isinstance(accepted, NumberRange) else text


def _truth(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise BadFieldValue("neither true nor false", "true or false")
    return text.lower() == "true"


def _number(text: str, accepted: NumberRange) -> int | float:
    kind = f"{'a whole' if accepted.whole else 'a'} number of {accepted.unit}"
    accepts = f"{kind} from {accepted.lowest:g} to {accepted.highest:g}"
    try:
        value = int(text) if accepted.whole else float(text)
    except ValueError as error:
        raise BadFieldValue("not a number", accepts) from error
    if "_" in text or not (math.isfinite(value) and accepted.lowest <= value <= accepted.highest):
        raise BadFieldValue("out of range", accepts)
    return value
