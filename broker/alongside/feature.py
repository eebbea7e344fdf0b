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
            "Our decisions beside what JEDI really did, by rule, queue and share.",
            place=210,
        ),
    ),
    routes=("broker.alongside.routes.shadow",),
    pages=("broker.alongside.pages.shadow",),
)
