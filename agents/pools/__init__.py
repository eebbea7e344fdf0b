"""The agents that keep SubmitPools current and activate jobs."""
