"""SubmitPools and resources as rows: registered, mapped to queues, read, removed."""
