"""Commands about what waits and what happened.

``broker tasks``, ``jobs``, ``job``, ``reasons``, ``history`` (also ``story``), ``user``.
"""
