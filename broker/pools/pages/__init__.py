"""The pages of SubmitPools."""
