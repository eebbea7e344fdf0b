"""Rules of the task brokerage: filters and weights over nuclei, one file a rule."""
