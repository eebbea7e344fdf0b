"""The grid at one instant: columnar, immutable, with the age and state of each source."""
