"""Running a description: plan, generated code, and the `Graph` module.  It does not know how flows are written."""
