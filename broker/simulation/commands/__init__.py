"""Commands about simulated grids: ``broker simulate``, ``broker calibrate`` and the demonstration."""
