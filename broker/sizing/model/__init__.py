"""Values of a task computed from its jobs, by the formulae of PanDA and by quantiles. Pure."""
