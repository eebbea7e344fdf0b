"""Ending jobs through PanDA's server."""
