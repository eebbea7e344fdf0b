"""The commands of ``broker task``."""
