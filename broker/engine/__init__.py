"""The engine: facts, masks and reasons, ranking, distribution and explanation. It knows no rule by name."""
