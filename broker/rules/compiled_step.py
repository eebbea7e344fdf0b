"""The step of the compiled loop that equals a moving rule, and the constants and keys that it takes from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class CompiledStep:
    """A step of the compiled loop with the arguments that the rule gives it.

    The loop has no constants of the rule itself: compiled code would go on with old ones. A chain is refused when the
    process starts if a rule of it reads a gdpconfig key that its step is not given.

    Attributes:
        name: of the step, see ``broker.engine.compiled.loop_steps``.
        constants: arguments of the step that the rule has as numbers.
        keys: gdpconfig keys of which the step is given the values, by the name of the argument; all keys of the rule.
    """

    name: str
    constants: Mapping[str, float] = field(default_factory=dict)
    keys: Mapping[str, str] = field(default_factory=dict)
