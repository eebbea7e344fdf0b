"""If input files are not sent to queues, the queue must have all of them."""

from __future__ import annotations

import numpy as np

from broker.rules.contract import Bools, Floats, Load, LoadCut, Observation, Options, Reason, flag


class FileDispatchOptions(Options):
    """Whether input files are sent to queues.

    Attributes:
        disabled: they are not, as with ``disable_file_dispatch`` in ``panda_server.cfg``.
    """

    disabled: bool = False


class FileDispatch(LoadCut):
    """Rejects queues that do not have all input files on disk, if files are not dispatched.

    It judges only the chosen queues, so that others do not move up. Source: PanDA JEDI, GenJobBroker.
    """

    name = "file_dispatch"
    reason = Reason(
        code="file_dispatch",
        title="All input files are on disk at the queue, or files are sent there",
        violation="Not all input files are on disk at the queue, and files are not sent there",
        no_candidate="has all input files",
        who="ask",
        cure="Copy the input to the storage of the queue, or operators allow files to be dispatched.",
    )
    provenance = "PanDA JEDI, GenJobBroker"
    options: FileDispatchOptions = FileDispatchOptions()

    def keep(self, load: Load, weight: Floats) -> Bools:
        """Shape of ``load.running``: True where the candidate passes."""
        return np.asarray(load.all_local | (not self.options.disabled))

    def observe(self, load: Load, weight: Floats) -> Observation:
        """Whether the queue has all files; no limit if they are sent."""
        return Observation(flag(load.all_local), "==", True if self.options.disabled else None, "-", "rule")
