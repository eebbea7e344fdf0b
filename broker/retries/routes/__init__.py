"""Retry rules over HTTP."""
