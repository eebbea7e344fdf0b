"""Pages of what waits and happened: work, users and reasons, and the search box."""
