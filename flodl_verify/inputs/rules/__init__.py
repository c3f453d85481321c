"""Guesses of arguments and inputs, and changes of refused ones; one file for each kind of hint."""
