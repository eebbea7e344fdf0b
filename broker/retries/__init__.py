"""What the next attempt of a failed job is given, or that there is none: PanDA's retry rules, and own ones."""
