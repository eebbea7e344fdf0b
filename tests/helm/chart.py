"""What Helm makes of ``deploy/helm/gridbroker``."""

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
    """Helm rendered nothing."""


@dataclass(frozen=True)
class Chart:
    """The chart, rendered by this command."""

    command: Path

    def run(self, *words: str) -> str:
        """What a subcommand prints.

        Raises:
            Refused: it failed; with what it said.
        """
        done = subprocess.run([self.command, *words], capture_output=True, text=True)
        if done.returncode:
            raise Refused(done.stderr + done.stdout)
        return done.stdout

    def objects(self, *values: str) -> Objects:
        """The objects of a release with these values (``name=value``), by kind and name."""
        options = [word for one in values for word in ("--set-json", one)]
        return by_name(self.run("template", "release", str(CHART), *options))


def by_name(text: str) -> Objects:
    """The objects of a YAML stream, by kind and name."""
    return {(one["kind"], one["metadata"]["name"]): one for one in yaml.safe_load_all(text) if one}
