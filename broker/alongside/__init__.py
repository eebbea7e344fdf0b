"""Alongside PanDA: shadow mode, the plug-in, and PanDA's server."""
