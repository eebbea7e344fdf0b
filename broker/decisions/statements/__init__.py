"""SQL about decisions: the stamp by which answers are reused, and the place of work in its share."""
