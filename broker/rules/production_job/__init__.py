"""The rules of the production job brokerage."""
