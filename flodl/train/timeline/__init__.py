"""Record of when a machine worked and when it waited, beside what a training did at that time."""

from flodl.train.timeline.records import IdleGap as IdleGap
from flodl.train.timeline.records import TimelineBatch as TimelineBatch
from flodl.train.timeline.records import TimelineEvent as TimelineEvent
from flodl.train.timeline.records import TimelineSample as TimelineSample
from flodl.train.timeline.records import TimelineSummary as TimelineSummary
from flodl.train.timeline.timeline import Timeline as Timeline
