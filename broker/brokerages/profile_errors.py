"""What is wrong with a profile."""

from __future__ import annotations


class ProfileError(Exception):
    """A profile that cannot be used; the message names the entry and what to do."""
