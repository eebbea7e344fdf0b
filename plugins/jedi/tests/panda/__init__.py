"""PanDA's own side of the tests: panda-server's classes over a scenario, with nothing of theirs changed."""
