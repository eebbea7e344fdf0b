"""The picture of global shares: target and running part of each. Needs the extra ``plot``."""

from __future__ import annotations

from pathlib import Path

from broker.cli.rendering.plotting import AFTER, BEFORE, SMALL, new_figure, plain_label, save
from broker.grid.answers.models import Shares


def plot_shares(shares: Shares, file: Path) -> None:
    """Draw for each global share its target and its running part, in per cent of all.

    Raises:
        CannotPlot: matplotlib is not installed, or the file cannot be written.
    """
    figure, ((axes,),) = new_figure(max(1, len(shares.shares) // 15), 1)
    places = range(len(shares.shares))
    target = [share.target_percent or 0.0 for share in shares.shares]
    running = [share.running_percent or 0.0 for share in shares.shares]
    axes.barh([place - 0.2 for place in places], target, height=0.4, color=BEFORE, label="target")
    axes.barh([place + 0.2 for place in places], running, height=0.4, color=AFTER, label="running")
    axes.set_yticks(list(places), [plain_label("  " * share.depth + share.gshare) for share in shares.shares])
    axes.tick_params(axis="y", labelsize=SMALL)
    axes.invert_yaxis()
    axes.set_xlabel("share of all (%)")
    axes.legend()
    save(figure, file)
