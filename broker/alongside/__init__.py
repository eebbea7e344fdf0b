"""Alongside PanDA: shadow mode, the plug-in, PanDA's server, and copies of tables of a PanDA on another database."""
