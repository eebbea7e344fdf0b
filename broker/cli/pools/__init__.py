"""Commands about requirements, SubmitPools, submission and matching."""
