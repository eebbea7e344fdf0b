"""What a job requests, as numbers: the least that satisfies its conditions, and every alternative that it accepts.

Source: Scalable Systems Software Job Object Specification 3.0.3, requested properties and fuzzy requirements.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from broker.domain.work import WayToRun
from broker.formats.model.sss import conditions, model, values
from broker.formats.model.sss.conditions import Condition, Expression, NotExpandableError
from broker.formats.model.sss.model import Block, Property, Value

MB = 1024 * 1024
MOST_CORES = 999
MAX_ALTERNATIVES = 16
QUANTITIES = ("Processors", "Memory", "Disk", "WallDuration", "CpuDuration")


class CannotAskError(ValueError):
    """A request that no job of PanDA can make; ``reason`` is a short code."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail


@dataclass(frozen=True)
class Range:
    """The accepted values of one quantity: bounds included, without some single values."""

    low: float = 0.0
    high: float = math.inf
    without: tuple[float, ...] = ()

    def accepts(self, value: float) -> bool:
        """Whether a value is accepted."""
        return self.low <= value <= self.high and value not in self.without


@dataclass(frozen=True)
class Alternative:
    """One way to satisfy a request; ``None`` where nothing is requested.

    ``cores`` is a range of whole numbers; memory, scratch disk and walltime are what the job must be given at least.
    """

    cores: Range | None = None
    memory_mb: int | None = None
    disk_mb: int | None = None
    wall_s: int | None = None
    cpu_s: int | None = None

    @property
    def fewest_cores(self) -> int | None:
        """The smallest accepted number of cores, ``None`` if none is requested."""
        if self.cores is None:
            return None
        low = max(1, math.ceil(self.cores.low))
        return next(
            (count for count in range(low, low + 1 + len(self.cores.without)) if self.cores.accepts(count)), None
        )

    @property
    def way(self) -> WayToRun:
        """The alternative as the brokerage sees it."""
        most = None if self.cores is None or math.isinf(self.cores.high) else math.floor(self.cores.high)
        without = () if self.cores is None else self.cores.without
        return WayToRun(self.fewest_cores, most, without, self.memory_mb, self.disk_mb, self.wall_s)


@dataclass(frozen=True)
class Request:
    """All that is requested: the alternatives in order of preference."""

    alternatives: tuple[Alternative, ...] = field(default=(Alternative(),))

    @property
    def first(self) -> Alternative:
        """The preferred alternative."""
        return self.alternatives[0]

    @property
    def fewest_cores(self) -> int | None:
        """The smallest number of cores that any alternative accepts, ``None`` if one of them requests none."""
        counts = [alternative.fewest_cores for alternative in self.alternatives]
        return None if None in counts else min(count for count in counts if count is not None)

    @property
    def is_fuzzy(self) -> bool:
        """Whether there is a choice: several alternatives, or a range of cores."""
        cores = self.first.cores
        return len(self.alternatives) > 1 or (cores is not None and cores.low != cores.high)


def quantities_of(properties: Sequence[Property]) -> list[Value]:
    """The values of properties of one name in the unit of the quantity: bytes for sizes."""
    if properties and properties[0].name in model.SIZED:
        return [
            values.size_bytes(prop.value, prop.attributes.get("units")) if isinstance(prop.value, int | float) else None
            for prop in properties
        ]
    return [prop.value for prop in properties]


def expression_in(block: Block, name: str) -> Expression | None:
    """The conditions on one quantity in a block, sizes in bytes; ``None`` without any."""
    properties = block.all_of(name)
    return conditions.expression_of(properties, quantities_of(properties)) if properties else None


def request_of(block: Block | None) -> Request:
    """What a ``Requested`` block requests.

    Raises:
        CannotAskError: no number of cores satisfies it, there are too many alternatives, or too many cores.
    """
    if block is None:
        return Request()
    combinations: list[dict[str, Range]] = [{}]
    for name in QUANTITIES:
        expression = expression_in(block, name)
        if expression is None:
            continue
        try:
            ranges = [_range(one) for one in conditions.alternatives_of(expression)]
        except NotExpandableError as error:
            raise CannotAskError("too-many-alternatives", f"{name}: {error}") from error
        # a duration means the upper limit, whatever its operator
        combinations = [{**before, name: one} for before in combinations for one in ranges]
        if len(combinations) > MAX_ALTERNATIVES:
            raise CannotAskError("too-many-alternatives", f"more than {MAX_ALTERNATIVES}")
    alternatives = [_alternative(one) for one in combinations if all(part.low <= part.high for part in one.values())]
    usable = tuple(dict.fromkeys(one for one in alternatives if one.cores is None or one.fewest_cores is not None))
    if not usable:
        raise CannotAskError("unsatisfiable", "no value satisfies all conditions")
    if all(one.fewest_cores is not None and one.fewest_cores > MOST_CORES for one in usable):
        raise CannotAskError("too-many-cores", f"a job has at most {MOST_CORES} cores")
    return Request(tuple(one for one in usable if one.fewest_cores is None or one.fewest_cores <= MOST_CORES))


def _range(comparisons: Sequence[Condition]) -> Range:
    low, high = 0.0, math.inf
    without: list[float] = []
    for comparison in comparisons:
        if not isinstance(comparison.value, int | float):
            raise CannotAskError("not-a-number", f"{comparison.name} {comparison.operator} {comparison.value}")
        value = float(comparison.value)
        match comparison.operator:
            case "EQ":
                low, high = max(low, value), min(high, value)
            case "GE":
                low = max(low, value)
            case "GT":
                low = max(low, math.nextafter(value, math.inf))
            case "LE":
                high = min(high, value)
            case "LT":
                high = min(high, math.nextafter(value, -math.inf))
            case _:
                without.append(value)
    return Range(low, high, tuple(without))


def _alternative(ranges: dict[str, Range]) -> Alternative:
    cores = ranges.get("Processors")
    if cores is not None and cores.low < 1:
        cores = Range(1.0, cores.high, cores.without)
    return Alternative(
        cores,
        _least_mb(ranges.get("Memory")),
        _least_mb(ranges.get("Disk")),
        _limit_s(ranges.get("WallDuration")),
        _limit_s(ranges.get("CpuDuration")),
    )


def _least_mb(accepted: Range | None) -> int | None:
    if accepted is None or accepted.low <= 0:
        return None
    return math.ceil(accepted.low / MB)


def _limit_s(accepted: Range | None) -> int | None:
    """The longest time that a request names: an exact one, an upper bound, or at least the lower one."""
    if accepted is None:
        return None
    bound = accepted.high if math.isfinite(accepted.high) else accepted.low
    return math.ceil(bound) if bound > 0 else None
