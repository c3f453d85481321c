"""The search for cases: constructor arguments and inputs that the original takes."""
