"""Facts about a model for its pictures and pages: shapes, tensors, documentation, sources of lambdas."""
