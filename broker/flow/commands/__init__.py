"""Commands about the quality of decisions: ``broker quality``."""
