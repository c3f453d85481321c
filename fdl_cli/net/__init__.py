"""The network: the only package that knows `httpx`. Files, package indexes, a cache.

It must not know what torch is.
"""
