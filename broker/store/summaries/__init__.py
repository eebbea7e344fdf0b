"""Summaries of worker nodes, as tables or as materialised views."""
