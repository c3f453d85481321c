"""Arithmetic of training on many devices: shares of work, cadence of averaging, account of units.

Nothing in this package imports torch: what each rank does next is a function of numbers that all ranks
know, so all of them come to the same decision without a coordinator.
"""

from flodl.distributed.control import ApplyPolicy as ApplyPolicy
from flodl.distributed.control import ControlRow as ControlRow
from flodl.distributed.control import WindowPlan as WindowPlan
from flodl.distributed.divergence import ConvergenceGuard as ConvergenceGuard
from flodl.distributed.divergence import Verdict as Verdict
from flodl.distributed.el_che import ElChe as ElChe
from flodl.distributed.partition import divide as divide
from flodl.distributed.planner import WindowPlanner as WindowPlanner
from flodl.distributed.unit_ledger import UnitLedger as UnitLedger
