"""The page of shadow mode."""
