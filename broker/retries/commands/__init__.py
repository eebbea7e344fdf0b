"""``broker retry-rule``."""
