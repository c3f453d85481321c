"""Names that every graph has: a class that uses one of them for itself is kept."""

from typing import Final

# A test compares this with the runtime, so that the two cannot drift apart.
RESERVED: Final = frozenset({
    "_abc_impl", "_definitions", "_forget", "_kinds", "_main", "_programs", "_repr_svg_",
    "_set_plans", "_unrecorded", "build", "child_graph", "code", "collect", "collect_at",
    "collect_timings", "collect_with", "collected", "describe", "detach_state",
    "disable_profiling", "dot", "dot_with_profile", "enable_profiling", "end_epoch",
    "end_sequence", "end_step", "eta", "export_timing_trends", "export_trends", "flow", "flush",
    "flush_count", "flush_local", "flush_timings", "freeze", "from_sequential", "has_state",
    "heat_map", "html", "is_frozen", "latest_metrics", "load_checkpoint",
    "load_subgraph_checkpoint", "mermaid", "metric_log", "named_buffers_at", "named_parameters_at",
    "observe_tags", "param_summary", "parameters_at", "plot_html", "plot_timings_html", "profile",
    "profiling", "rebuild", "record", "record_at", "record_scalar", "replace", "reset_state",
    "reset_trend", "save_checkpoint", "set_training_at", "short_hash", "snapshot_cpu", "spec",
    "structural_hash", "subgraph", "svg", "svg_with_profile", "tag_names", "tagged", "tagged_at",
    "thaw", "timing", "timing_trend", "trainable_parameters", "tree_children", "tree_summary",
    "trend", "trend_at", "trends", "validate_path", "write_log",
})  # fmt: skip
