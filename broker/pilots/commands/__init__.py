"""Commands about pilots: ``broker match-job`` and ``broker pilots``."""
