"""The network: the only room that knows `httpx`. Files, package indexes, a cache.

It must not know what torch is.
"""
