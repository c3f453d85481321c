"""Entry programs of tasks: their options, arguments and files."""
