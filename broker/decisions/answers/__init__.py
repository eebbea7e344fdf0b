"""Answers about decisions: explain, why-not, feasibility, reasons and rules in force, replay."""
