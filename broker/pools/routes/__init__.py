"""The HTTP API of SubmitPools: for people, and for pilot factories."""
