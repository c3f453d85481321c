"""One training under several policies, side by side: how fast each is, and what it learns."""

from flodl.train.comparison.compare import compare_policies as compare_policies
from flodl.train.comparison.table import PolicyComparison as PolicyComparison
from flodl.train.comparison.table import PolicyRun as PolicyRun
