"""The language between the porter's stages: frozen, printable, and free of any syntax library."""
