"""Registers the feature ``alongside``."""

from __future__ import annotations

from broker.feature import Command, Feature

FEATURE = Feature(
    name="alongside",
    order=140,
    commands=(
        Command(
            "shadow",
            "broker.alongside.commands.shadow:shadow",
            "Compare our decisions with what JEDI did, by rule, queue and share.",
            place=210,
        ),
        Command(
            "plugin",
            "broker.alongside.commands.plugin:app",
            "Which tasks JEDI's plug-in decides on: off, on, a percent of them, some labels.",
            place=211,
            watched=("plugin log",),
        ),
    ),
    routes=("broker.alongside.routes.shadow",),
    pages=("broker.alongside.pages.shadow",),
    templates="broker.alongside",
)
