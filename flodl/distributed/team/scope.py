"""The part of a store that a team has for itself, and the address under which its ranks reach each other.

flodl/job-7/try0/dead/1        told to all trainings of one start
flodl/job-7/try0/0/g3/members  generation 3 of its first training
flodl/job-7/try1/...           all of it again, after the ranks were started again
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from torch._C._distributed_c10d import PrefixStore, Store


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Where the keys of a team are in a store; by default the store has no other team.

    Attributes:
        start: prefix of all that one start of the ranks has in the store.
        training: prefix of one training below it.
        hostname: address on which this rank listens for the others; nothing for the choice of Gloo.

    Example:
        >>> from torch.distributed import HashStore
        >>> store = HashStore()
        >>> Scope(start="flodl/a", training="0").of_training(store).set("key", "value")
        >>> store.check(["flodl/a/0/key"])
        True
    """

    start: str = ""
    training: str = ""
    hostname: str = "127.0.0.1"

    def of_start(self, store: Store) -> Store:
        """Return the store as all trainings of one start see it."""
        return PrefixStore(self.start, store) if self.start else store

    def of_training(self, store: Store) -> Store:
        """Return the store as this team sees it."""
        own = self.of_start(store)
        return PrefixStore(self.training, own) if self.training else own
