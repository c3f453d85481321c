"""Processes that train together, one on each device, on the process groups of torch. Alpha.

The package imports torch, and the rest of `flodl.distributed` does not: import it by its full name. It knows
nothing of models, optimizers or data: what a unit of work is, its caller says with plain callables.
"""

from flodl.distributed.team.exact_runner import ExactRunner as ExactRunner
from flodl.distributed.team.failures import DesyncError as DesyncError
from flodl.distributed.team.failures import LeftOutError as LeftOutError
from flodl.distributed.team.failures import PeerLostError as PeerLostError
from flodl.distributed.team.failures import TeamError as TeamError
from flodl.distributed.team.failures import WorkerError as WorkerError
from flodl.distributed.team.launcher import RankState as RankState
from flodl.distributed.team.launcher import TeamHandle as TeamHandle
from flodl.distributed.team.launcher import launch as launch
from flodl.distributed.team.team import Team as Team
from flodl.distributed.team.window_runner import WindowRunner as WindowRunner
from flodl.distributed.team.window_runner import WindowWork as WindowWork
