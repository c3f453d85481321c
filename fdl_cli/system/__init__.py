"""Facts about the machine and the one way to start processes.

This room makes no decisions and knows nothing of commands, projects or torch builds.
"""
