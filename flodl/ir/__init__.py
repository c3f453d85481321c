"""The frozen description of a graph.  It is plain data: it knows neither torch nor how graphs run."""
