"""Parts of the engine for analysis only: throttle, locality, load by user, weights by class."""
