"""Facts about the machine and the one way to start processes.

This package makes no decisions and knows nothing of commands, projects or torch builds.
"""
