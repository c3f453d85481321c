"""Record of when a machine worked and when it waited, beside what a training did at that time."""

from flodl.monitor.timeline.records import IdleGap as IdleGap
from flodl.monitor.timeline.records import TimelineBatch as TimelineBatch
from flodl.monitor.timeline.records import TimelineEvent as TimelineEvent
from flodl.monitor.timeline.records import TimelineSample as TimelineSample
from flodl.monitor.timeline.records import TimelineSummary as TimelineSummary
from flodl.monitor.timeline.timeline import Timeline as Timeline
