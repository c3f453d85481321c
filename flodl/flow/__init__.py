"""The language in which users write graphs.  It describes; running is the business of `flodl.graph`."""
