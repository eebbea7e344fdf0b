"""Commands about gdpconfig values and canaries: ``broker config``."""
