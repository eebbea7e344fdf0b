"""Answers in English: only here do codes, values and limits become sentences, for the terminal and the page alike."""
