"""The choice, timing and wording of notifications. Pure."""
