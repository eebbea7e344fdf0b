"""Plots of a comparison over time: use, waits, transfers, bytes and shares. They need the extra ``plot``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from broker.errors import BrokerError
from broker.simulation.model.comparing import PRIMARY, CaseResult, Comparison


def plot_curves(results: Sequence[CaseResult], folder: Path) -> list[Path]:
    """Plot each curve: the mean over seeds of each policy, with its range. Returns the files.

    Raises:
        BrokerError: matplotlib is not installed, or the folder cannot be written.
    """
    pyplot = _pyplot()
    if not results:
        return []
    _make_folder(folder)
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


#: Figures whose differences are plotted, the primary ones first.
COMPARED = (*PRIMARY, "wait_mean_s", "use", "wan_bytes_job", "failed")


def plot_differences(comparisons: Sequence[Comparison], folder: Path) -> list[Path]:
    """Plot the differences to the first policy with their 95 % intervals, in parts of its mean.

    A difference without an interval, and a figure without a mean of the first policy, are left out. Returns the file;
    none if there is nothing to plot.

    Raises:
        BrokerError: matplotlib is not installed, or the folder cannot be written.
    """
    pyplot = _pyplot()
    if len(comparisons) < 2:
        return []
    _make_folder(folder)
    first = comparisons[0].means
    names = [name for name in COMPARED if math.isfinite(first[name].mean) and first[name].mean]
    figure, axes = pyplot.subplots(1, len(names), figsize=(2.6 * len(names), 0.5 * len(comparisons) + 1.5), sharey=True)
    for axis, name in zip(np.atleast_1d(axes), names, strict=True):
        for place, one in enumerate(comparisons[1:]):
            difference, whole = one.differences[name], abs(first[name].mean)
            if math.isfinite(difference.half_width):
                axis.errorbar(
                    100 * difference.mean / whole, place, xerr=100 * difference.half_width / whole, fmt="o", capsize=3
                )
        axis.axvline(0.0, color="grey", linewidth=0.8)
        axis.set_title(name)
        axis.set_xlabel(f"% of {comparisons[0].label}")
        axis.set_yticks(range(len(comparisons) - 1), [one.label for one in comparisons[1:]])
    figure.tight_layout()
    file = folder / "differences.svg"
    figure.savefig(file)
    pyplot.close(figure)
    return [file]


def _pyplot() -> Any:
    try:
        import matplotlib

        matplotlib.use("svg")
        from matplotlib import pyplot
    except ImportError as error:
        raise BrokerError("pictures need matplotlib", "--plot", "install it: pip install 'gridbroker[plot]'") from error
    return pyplot


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BrokerError(f"the folder cannot be made: {error.strerror}", str(folder), "name another one") from error
