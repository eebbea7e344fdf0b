"""What all settings of notifications have in common."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Terms(BaseModel):
    """Base of all settings of notifications: unknown names are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)
