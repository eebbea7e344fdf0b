"""The HTTP interface of the PanDA server that pilots and Harvester call, with its schema and its conventions."""
