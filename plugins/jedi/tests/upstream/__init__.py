"""How far a profile decides as PanDA's own brokers do: fresh grids by seed, both sides, differences by cause.

    python -m upstream panda 1000-1049        # from plugins/jedi/tests, in the environment of make test-jedi

or, in Python, ``upstream.run.compare(profile, seeds)``.
"""
