"""Renders ``deploy/helm/gridbroker`` with Helm."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
CHART = ROOT / "deploy" / "helm" / "gridbroker"
BASE = ROOT / "deploy" / "kubernetes" / "base"

Objects = dict[tuple[str, str], dict[str, Any]]


class Refused(Exception):
    """Helm refused to render the chart."""


@dataclass(frozen=True)
class Chart:
    """The chart and the command that renders it."""

    command: Path

    def run(self, *words: str) -> str:
        """The output of a subcommand.

        Raises:
            Refused: the subcommand failed; the message is its output.
        """
        result = subprocess.run([self.command, *words], capture_output=True, text=True)
        if result.returncode:
            raise Refused(result.stderr + result.stdout)
        return result.stdout

    def objects(self, *values: str) -> Objects:
        """The objects of a release with these values (``name=value``), by kind and name."""
        options = [word for assignment in values for word in ("--set-json", assignment)]
        return by_name(self.run("template", "release", str(CHART), *options))


def by_name(text: str) -> Objects:
    """The objects of a YAML stream, by kind and name."""
    return {(item["kind"], item["metadata"]["name"]): item for item in yaml.safe_load_all(text) if item}
