"""Getting documents from files and web servers: bounded, checked, conditional, tried again."""
