"""The rules of the analysis job brokerage."""
