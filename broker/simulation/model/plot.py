"""Figures of a comparison over time: use, waits, transfers, bytes and shares. Needs the extra plot."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from broker.errors import BrokerError
from broker.simulation.model.comparing import CaseResult


def plot_curves(results: Sequence[CaseResult], folder: Path) -> list[Path]:
    """A picture for each curve: the mean over seeds of each policy, with its range. Returns the files.

    Raises:
        BrokerError: matplotlib is not installed, or the folder cannot be written.
    """
    try:
        import matplotlib

        matplotlib.use("svg")
        from matplotlib import pyplot
    except ImportError as error:
        raise BrokerError("pictures need matplotlib", "--plot", "install it: pip install 'gridbroker[plot]'") from error
    if not results:
        return []
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BrokerError(f"the folder cannot be made: {error.strerror}", str(folder), "name another one") from error
    labels = list(dict.fromkeys(result.label for result in results))
    files = []
    for name in results[0].curves:
        figure, axes = pyplot.subplots(figsize=(8, 4.5))
        for label in labels:
            own = [result for result in results if result.label == label]
            values = np.array([result.curves[name] for result in own])
            hours = own[0].hours
            axes.plot(hours, values.mean(axis=0), label=label)
            axes.fill_between(hours, values.min(axis=0), values.max(axis=0), alpha=0.2)
        axes.set_xlabel("hours")
        axes.set_ylabel(name)
        axes.legend()
        files.append(folder / f"{name.replace(' ', '_').replace('/', '_')}.svg")
        figure.savefig(files[-1])
        pyplot.close(figure)
    return files
