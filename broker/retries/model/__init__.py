"""Which rules apply to a failed job, and what each does. Pure."""
