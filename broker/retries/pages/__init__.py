"""The page of retry rules and of what they did."""
