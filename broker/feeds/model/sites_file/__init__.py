"""The file of an installation that declares its sites itself: what it may say, reading it, and the rows it makes."""
