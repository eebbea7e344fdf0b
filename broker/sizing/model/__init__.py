"""Values of a task from its jobs, by the formulae of PanDA and by quantiles. Pure."""
