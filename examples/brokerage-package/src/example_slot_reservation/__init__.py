"""A brokerage that reserves slots of HPC allocations."""
