"""The SSS Job Object 3.0.3: jobs in XML, for submission, queueing, execution and accounting."""
