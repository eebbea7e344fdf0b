"""YAML texts as plain values, read with libyaml where available, in a sixth of the time."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import yaml
from yaml.composer import Composer
from yaml.constructor import SafeConstructor
from yaml.resolver import Resolver


def _loader() -> type[Any]:
    """The loader class: PyYAML's own safe one if it was built without libyaml."""
    if not yaml.__with_libyaml__:
        return yaml.SafeLoader
    from yaml._yaml import CParser

    class Loader(Composer, CParser, SafeConstructor, Resolver):
        """Scans and parses in C, and composes in Python: in yaml.CSafeLoader a deeply nested text ends the process."""

        def __init__(self, stream: str) -> None:
            CParser.__init__(self, stream)
            Composer.__init__(self)
            SafeConstructor.__init__(self)
            Resolver.__init__(self)

    return Loader


_LOADER = _loader()


def read_yaml(text: str) -> Any:
    """The value of the one document in a text, as ``yaml.safe_load`` gives it.

    Raises:
        yaml.YAMLError: the text is no YAML, or asks for more than plain values.
    """
    if "\t" in text:
        return yaml.safe_load(text)  # libyaml takes tabs between tokens, where PyYAML refuses them
    try:
        return yaml.load(text, _LOADER)  # noqa: S506 - constructs plain values only
    except yaml.YAMLError:
        # for PyYAML's own message, which shows the line
        return yaml.safe_load(text)


@lru_cache(maxsize=32)
def read_yaml_once(text: str) -> Any:
    """As :func:`read_yaml`, but the same text is read only once, so callers must not change the value.

    For configuration files, which are read for each answer and hardly ever change.

    Raises:
        yaml.YAMLError: as :func:`read_yaml`.
    """
    return read_yaml(text)


def compose_yaml(text: str) -> yaml.Node | None:
    """The nodes of the one document in a text, with their lines; None for an empty text.

    Raises:
        yaml.YAMLError: the text is no YAML.
    """
    node: yaml.Node | None = yaml.compose(text, yaml.SafeLoader)
    return node
