"""The agents that keep SubmitPools current and remove unused ones."""
