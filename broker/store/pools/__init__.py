"""SubmitPools on record: registration, refresh, look-up, clean-up, and the versions of the resources."""
