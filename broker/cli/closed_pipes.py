"""Output into a pipe whose reader has gone, as in ``broker tasks | head -1``: the command continues silently.

A cycle that prints its decisions while it runs must not be cut short, or recorded as failed, for lack of a reader.
"""

from __future__ import annotations

import io
import os
import sys
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer as Buffer


class PipeWithoutReader(io.FileIO):
    """A file descriptor that turns into ``/dev/null`` once its reader has gone."""

    reader_gone = False

    def write(self, data: Buffer, /) -> int:
        """Write the data, or drop it if there is no reader."""
        try:
            return super().write(data)
        except BrokenPipeError:
            self.reader_gone = True
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.fileno())
            os.close(nowhere)
            return super().write(data)


def survive_closed_pipes() -> None:
    """Let stdout and stderr of this process outlive their readers."""
    sys.stdout, sys.stderr = _surviving(sys.stdout), _surviving(sys.stderr)


def reader_gone() -> bool:
    """Return whether stdout has lost its reader."""
    raw = getattr(getattr(sys.stdout, "buffer", None), "raw", None)
    return isinstance(raw, PipeWithoutReader) and raw.reader_gone


def _surviving(stream: TextIO) -> TextIO:
    try:
        number = stream.fileno()
    except (OSError, ValueError, AttributeError):
        return stream  # no descriptor, or no stream at all: there is no pipe that could break
    stream.flush()
    return io.TextIOWrapper(
        io.BufferedWriter(PipeWithoutReader(number, "w", closefd=False)),
        encoding=stream.encoding,
        errors=stream.errors,
        line_buffering=stream.isatty() or number == 2,
    )
