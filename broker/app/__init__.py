"""Use cases between the interfaces and what is below: explain, replay, compare, submit. No terminal, no clock."""
