"""Commands about exchange formats: Machine/Job Features, job status, SSS Job Objects."""
