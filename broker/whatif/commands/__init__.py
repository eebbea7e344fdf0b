"""Commands that decide stored cycles with other values or rules: ``broker what-if`` and ``broker sweep``."""
