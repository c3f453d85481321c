"""Names that every graph has, and the restriction on a class that uses them for itself."""

from typing import Final

# A test compares both with the runtime, so that they cannot drift apart.

# The graph works with these: a class that has its own is kept.
RESERVED: Final = frozenset({
    "_abc_impl", "_definitions", "_forget", "_kinds", "_main", "_programs", "_set_plans", "flow",
    "from_sequential",
})  # fmt: skip

# Nothing but their callers needs these: a member of the class takes the place of the graph's.
CONVENIENT: Final = frozenset({
    "_repr_svg_", "build", "child_graph", "code", "collect", "collect_at", "collect_timings",
    "collect_with", "collected", "describe", "detach_state", "disable_profiling", "dot",
    "dot_with_profile", "enable_profiling", "end_epoch", "end_sequence", "end_step", "epoch",
    "eta", "export_timing_trends", "export_trends", "flush", "flush_count", "flush_local",
    "flush_timings", "forward_batch", "freeze", "has_state", "heat_map", "html", "is_frozen",
    "last_trace", "latest_metrics", "load_checkpoint", "load_subgraph_checkpoint", "mermaid",
    "metric_log", "named_buffers_at", "named_parameters_at", "observe_tags", "param_summary",
    "parameters_at", "plot_html", "plot_timings_html", "profile", "profile_stats", "profiling", "rebuild",
    "record", "record_at", "record_scalar", "replace", "reset_state", "reset_trend", "save_checkpoint",
    "set_data_loader", "set_lr", "set_scheduler", "set_training_at", "short_hash", "snapshot_cpu",
    "spec", "step", "structural_hash", "subgraph", "svg", "svg_with_profile", "tag_names",
    "tagged", "tagged_at", "thaw", "timing", "timing_trend", "traces", "trainable_parameters",
    "tree_children", "tree_summary", "trend", "trend_at", "trends", "validate_path", "walk_modules",
    "write_log",
})  # fmt: skip
