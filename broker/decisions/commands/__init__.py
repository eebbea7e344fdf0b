"""Commands about decisions: ``broker explain``, ``broker why-not``, ``broker replay``, ``broker rules``."""
