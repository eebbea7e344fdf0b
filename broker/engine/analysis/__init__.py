"""What the analysis brokerage adds: throttle, locality, load by user, weights by class."""
