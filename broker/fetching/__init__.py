"""Fetching documents from files and web servers: bounded, checked, conditional, with retries."""
