"""Brokers for PanDA JEDI that ask gridbroker's engine in the same process, and fall back to PanDA's own classes."""
