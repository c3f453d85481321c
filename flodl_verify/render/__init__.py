"""Drawing of one model of one file in a separate process: `python -m flodl_verify.render`."""
