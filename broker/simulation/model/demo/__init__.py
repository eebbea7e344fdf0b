"""The demonstration grid: facts from ``config/demo`` turned into the tables of a scenario file.

Everything here is pure: the text of the facts, the instant and the seed are arguments, the result is plain rows.
"""
