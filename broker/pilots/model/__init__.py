"""Requests and reports of pilots, the answers to them, and what becomes of their jobs: decisions only, no I/O."""
