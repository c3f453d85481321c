"""Stand-ins for what a script needs and this machine lacks: data sets, plots, progress bars.

They are the same for the original and for the port, and the evidence names them.
"""
