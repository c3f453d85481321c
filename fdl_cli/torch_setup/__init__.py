"""Torch for a machine: choice, download, installation, proof.

It must not know commands; messages to people go through the console it is given.
"""
