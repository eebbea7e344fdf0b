"""Rules that only the analysis brokerage has."""
