"""Names that every graph has, and what they forbid to a class that uses them for itself."""

from typing import Final

# A test compares both with the runtime, so that they cannot drift apart.

# The graph works with these: a class that has its own is kept.
RESERVED: Final = frozenset({
    "_abc_impl", "_definitions", "_forget", "_kinds", "_main", "_programs", "_set_plans",
    "_unrecorded", "build", "code", "describe", "detach_state", "dot", "end_epoch", "end_sequence",
    "end_step", "flow", "from_sequential", "has_state", "rebuild", "reset_state", "spec",
})  # fmt: skip

# Nothing but their callers needs these. A method or a plain value of the class takes the place of
# the graph's; a layer of such a name would be hidden behind the method, so its class is kept.
CONVENIENT: Final = frozenset({
    "_repr_svg_", "child_graph", "collect", "collect_at", "collect_timings", "collect_with",
    "collected", "disable_profiling", "dot_with_profile", "enable_profiling", "epoch", "eta",
    "export_timing_trends", "export_trends", "flush", "flush_count", "flush_local",
    "flush_timings", "forward_batch", "freeze", "heat_map", "html", "is_frozen", "last_trace", "latest_metrics",
    "load_checkpoint", "load_subgraph_checkpoint", "mermaid", "metric_log", "named_buffers_at",
    "named_parameters_at", "observe_tags", "param_summary", "parameters_at", "plot_html",
    "plot_timings_html", "profile", "profiling", "record", "record_at", "record_scalar", "replace",
    "reset_trend", "save_checkpoint", "set_data_loader", "set_training_at", "short_hash", "snapshot_cpu",
    "structural_hash", "subgraph", "svg", "svg_with_profile", "tag_names", "tagged", "tagged_at",
    "thaw", "timing", "timing_trend", "traces", "trainable_parameters", "tree_children", "tree_summary",
    "trend", "trend_at", "trends", "validate_path", "write_log",
})  # fmt: skip
