"""Output of commands in one style: tables, records, CSV, JSON lines, sentences, times and figures."""
