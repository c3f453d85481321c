"""Shows training while it runs and afterwards: terminal line, stored runs, live page, exports.

This room knows runs, graphs and pictures; it must not know the loop that trains.
"""

from flodl.monitor.alerts import AlertRules as AlertRules
from flodl.monitor.monitor import Monitor as Monitor
from flodl.monitor.store.record_log import RecordLog as RecordLog
from flodl.monitor.store.records import EpochRecord as EpochRecord
