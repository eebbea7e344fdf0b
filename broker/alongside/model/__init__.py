"""PanDA on another database: the interface of its reader, and the conversion of values; pure."""
