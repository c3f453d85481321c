"""Facts that the text of a project gives: its classes, calls, commands and options."""
