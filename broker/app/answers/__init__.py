"""Answers: what waits and why, what a queue gets and why not more, and what would help.

Each module holds the function that gives one answer, from an :class:`~.asking.Asking`; the objects are in the modules
of models. The command line, the HTTP API and the web page show the same objects; their sentences are made in
:mod:`broker.app.sentences`.
"""
