"""Setup of the worker processes of commands that distribute their work."""

from __future__ import annotations

import multiprocessing
import os
import threading

from broker.compilation import background


def install() -> None:
    """Run the loop in Python until it is compiled, and end together with the parent process.

    A pool tells its processes to end, but a killed parent cannot: they would wait for work forever, since each of them
    holds the other end of the pipe that it reads.
    """
    background.install()
    threading.Thread(target=_end_with_parent, name="end with parent", daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)  # a thread cannot end its process otherwise; there is nobody left to hand results to
