"""The language ``matchspec/1``: what a job asks of the node of a pilot, what a node has, and whether they fit."""
