"""The compiled loop of a cycle: equal to the bit to the rules and steps in Python."""
