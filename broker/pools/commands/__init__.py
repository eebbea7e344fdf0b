"""Commands about SubmitPools and matching specs: ``broker match`` and ``broker pool``."""
