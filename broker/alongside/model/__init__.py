"""PanDA on another database: what its reader has to do, and what becomes of the values; pure."""
