"""Pictures of what-ifs and sweeps for pages."""
