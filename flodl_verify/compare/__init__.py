"""The judge: compares what the two sides report, and never imports user code."""
