"""Which torch fits a machine, and getting it: choice, download, installation, proof.

It must not know commands or the terminal; progress is reported to a callable.
"""
