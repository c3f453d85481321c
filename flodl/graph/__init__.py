"""Running a description: plan, generated code, `Graph`.  It does not know how flows are written."""
