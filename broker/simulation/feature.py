"""Registers the feature ``simulation``."""

from __future__ import annotations

from broker.feature import Command, Feature

FEATURE = Feature(
    name="simulation",
    order=110,
    commands=(
        Command(
            "demo",
            "broker.simulation.commands.demo:demo",
            "Broker a whole example grid, from start to finish.",
            place=10,
        ),
        Command(
            "simulate",
            "broker.simulation.commands.simulate:simulate",
            "Compare policies on a simulated grid, over seeds.",
            place=310,
        ),
        Command(
            "calibrate",
            "broker.simulation.commands.calibrate:calibrate",
            "Fit a grid to what really ran, or check a fit.",
            place=315,
        ),
    ),
    routes=("broker.simulation.routes.simulations",),
    pages=("broker.simulation.pages.simulations",),
    templates="broker.simulation",
)
