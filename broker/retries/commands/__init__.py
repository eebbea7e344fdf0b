"""Commands about retry rules, which say what the next attempt of a failed job is given: ``broker retry-rule``."""
