"""The brokerages: for each, the ordered list of its rules and the steps that are no rules."""
