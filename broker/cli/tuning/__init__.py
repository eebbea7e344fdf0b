"""Commands about tuning values: set, preview, canary, what-if, sweep."""
