"""Which torch fits a machine, and getting it: choice, download, installation, proof.

It must not know commands; what people see while it works goes through the console it is given.
"""
