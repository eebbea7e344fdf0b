"""The HTTP API: an application of FastAPI over the use cases in the features' ``answers``; it needs the extra ``api``."""
