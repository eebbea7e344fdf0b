"""The command ``broker``: runs one command, and turns an error into one line, or one object, and an exit status."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from types import FrameType
from typing import Any, NoReturn

import typer

from broker.cli import completion
from broker.cli.application import NONE, click_command
from broker.cli.failing import emit_error, print_error, wants_json
from broker.cli.rendering.cells import remark
from broker.compilation import background
from broker.errors import DONE, FAILED, WRONG_USAGE, BrokerError
from broker.redaction import redact
from broker.resources import SharedPackage, require_own_packages
from broker.wrong_values import what_is_wrong


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run one command and end the process with its exit status."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    signal.signal(signal.SIGTERM, _end)
    background.install()
    as_json = wants_json(words)
    command_words = words
    if completion.completing():
        completion.get_ready()
        command_words = completion.words_to_complete()
    try:
        status = click_command(_command_in(command_words))(
            args=_options_first(words), prog_name="broker", standalone_mode=False
        )
    except BrokerError as error:
        emit_error(error, as_json)
        raise SystemExit(error.exit_status) from error
    except typer.Abort as error:
        remark("aborted")
        raise SystemExit(FAILED) from error
    except Exception as error:
        raise SystemExit(_unexpected(error, as_json)) from error
    raise SystemExit(status if isinstance(status, int) else DONE)


def _unexpected(error: Any, as_json: bool) -> int:
    """Report an error that is not ours and return the exit status. Wrong options are Click's errors."""
    if isinstance(error, ImportError):
        try:
            require_own_packages()
        except SharedPackage as shared:  # our file is gone, since the other distribution has overwritten it
            emit_error(shared, as_json)
            return shared.exit_status
    output, status = getattr(error, "format_message", None), getattr(error, "exit_code", None)
    if output is None or not isinstance(status, int):
        _report(error, as_json)
        return FAILED
    if type(error.__cause__).__name__ == "ValidationError":
        error.message = what_is_wrong(error.__cause__)
    if as_json:
        print_error(WRONG_USAGE, str(output()), "", "see --help")
        return WRONG_USAGE
    error.show()
    return status


def _command_in(arguments: Sequence[str]) -> str:
    """Return the command name: the first word that is neither an option nor the value of ``--db``, else ``NONE``."""
    words = iter(arguments)
    for word in words:
        if word == "--db":
            next(words, None)
        elif word in ("--help", "--"):
            return NONE
        elif not word.startswith("-"):
            return word
    return NONE


def _options_first(arguments: Sequence[str]) -> list[str]:
    """Move ``--db URL`` to the front of the arguments, wherever it stood before ``--``."""
    front: list[str] = []
    rest: list[str] = []
    words = iter(arguments)
    for word in words:
        if word == "--":
            rest += [word, *words]
        elif word == "--db":
            value = next(words, None)
            # Without a value it stays last, where it is reported instead of consuming the next word.
            front, rest = (front, [*rest, word]) if value is None else ([*front, word, value], rest)
        elif word.startswith("--db="):
            front.append(word)
        else:
            # a misplaced address is repeated in an error message
            rest.append(redact(word) if "://" in word else word)
    return front + rest


def _end(number: int, frame: FrameType | None) -> None:
    """End a command on SIGTERM as an error would, so that it releases the embedded server."""
    raise SystemExit(128 + number)


def _report(error: Exception, as_json: bool) -> None:
    import traceback

    if os.environ.get("BROKER_TRACEBACK"):
        traceback.print_exception(error)
    last = traceback.extract_tb(error.__traceback__)[-1]
    first_line = redact((str(error).splitlines() or [""])[0])[:500]
    message = f"{type(error).__name__}: {first_line}"
    where = f"{os.path.basename(last.filename)}, line {last.lineno}"
    remedy = "run it again with BROKER_TRACEBACK=1 and report what it prints"
    if as_json:
        print_error(FAILED, message, where, remedy)
    else:
        remark(f"error: {message}; {where}; {remedy}")


if __name__ == "__main__":
    main()
