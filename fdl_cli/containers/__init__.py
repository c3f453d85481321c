"""Container engines: build an image, run one command in it. The only package that knows docker.

It must not know tasks, manifests or the terminal; it gets plain requests and returns exit codes.
"""
