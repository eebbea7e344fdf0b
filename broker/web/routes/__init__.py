"""Routes of the page, by topic; every one has a policy."""
