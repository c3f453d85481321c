"""Comparison of a port with its original, in a child process that knows torch.

This package starts the child, limits it and reads its answer. It must not know torch or flodl.
"""

from fdl_cli.porter.verify.orchestrate import verify_port as verify_port
from fdl_cli.porter.verify.step_speed import measure_speed as measure_speed
from fdl_cli.porter.verify.whole_script import prove_script as prove_script
