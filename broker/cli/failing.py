"""Error output of commands: one line for people on stderr, or one object for programs on stdout."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from broker.cli.output import print_json
from broker.cli.rendering.cells import remark
from broker.errors import EXIT_STATUSES, FAILED, BrokerError
from broker.redaction import redact


def wants_json(arguments: Sequence[str]) -> bool:
    """Return whether answers, and hence errors, are to be objects on stdout."""
    before = list(arguments[: arguments.index("--")] if "--" in arguments else arguments)
    pairs = itertools.pairwise(before)
    return "--json" in before or "--format=json" in before or ("--format", "json") in pairs


def emit_error(error: BrokerError, as_json: bool) -> None:
    """Print an expected error."""
    if as_json:
        print_error(error.exit_status, error.what, error.where, error.remedy)
    else:
        remark(f"error: {redact(str(error))}")


def print_error(status: int, what: str, where: str = "", what_to_do: str = "") -> None:
    """Print the object of an error with the exit status ``status``."""
    code = EXIT_STATUSES.get(status, EXIT_STATUSES[FAILED])[0]
    output = {"code": code, "exit_status": status, "what": what, "where": where, "what_to_do": what_to_do}
    print_json({"error": {name: redact(value) if isinstance(value, str) else value for name, value in output.items()}})
