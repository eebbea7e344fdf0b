"""The source ``replicas``: the age of the replica catalogue, whose rows are read with the work."""

from __future__ import annotations

from broker.snapshot.draft import Draft, GridSource
from broker.snapshot.raw import RawSource
from broker.snapshot.source import SourceLimit


class Replicas(GridSource[None]):
    """Replica catalogue; without a feed it has no age."""

    name = "replicas"
    reads = ()
    limit = SourceLimit(max_age_s=86_400.0)

    def build(self, raw: RawSource, draft: Draft) -> None:
        """Build nothing: replicas are part of the work."""


REPLICAS = Replicas()
