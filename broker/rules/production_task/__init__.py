"""The rules of the task brokerage, which judge nuclei."""
