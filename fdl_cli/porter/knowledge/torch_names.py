"""Names of the torch API by their effect in a forward."""

from typing import Final

MODULE_BASES: Final = frozenset({"torch.nn.Module", "torch.nn.modules.Module",
                                 "torch.nn.modules.module.Module"})  # fmt: skip
FLOW_BASES: Final = frozenset({"flodl.FlowModule", "flodl.Graph"})
TENSOR_TYPES: Final = frozenset({"torch.Tensor", "torch.FloatTensor", "torch.LongTensor"})
CONTAINERS: Final = frozenset({"torch.nn.ModuleList", "torch.nn.Sequential"})
KEYED_CONTAINERS: Final = frozenset({"torch.nn.ModuleDict"})
PARAMETER_CONTAINERS: Final = frozenset({"torch.nn.ParameterList", "torch.nn.ParameterDict"})
PARAMETERS: Final = frozenset({"torch.nn.Parameter", "torch.nn.parameter.Parameter", "torch.nn.Buffer",
                               "torch.nn.parameter.Buffer", "torch.nn.UninitializedParameter",
                               "torch.nn.UninitializedBuffer"})  # fmt: skip

# Parts of torch that do not record one operation when a graph value comes in: each is one node.
OPAQUE_PREFIXES: Final = (
    "torch.utils.",
    "torch.jit.",
    "torch.nn.utils.",
    "torch.nn.parallel.",
    "torch.nn.init.",
    "torch.autograd.",
    "torch.distributed.",
    "torch.distributions.",
    "torch.hub.",
    "torch.func.",
    "torch.onnx.",
    "torch.ops.",
    "torch.compile",
)
OPAQUE: Final = frozenset({
    "torch.Tensor", "torch.FloatTensor", "torch.DoubleTensor", "torch.HalfTensor",
    "torch.LongTensor", "torch.IntTensor", "torch.ByteTensor", "torch.BoolTensor",
    "torch.from_numpy", "torch.manual_seed", "torch.cuda.manual_seed", "torch.seed",
    "torch.get_rng_state", "torch.set_rng_state", "torch.random.get_rng_state",
    "torch.random.set_rng_state", "torch.initial_seed",
})  # fmt: skip
# Their arguments may be numbers in one call and a tensor in another.
MAKE_TENSORS: Final = frozenset({"torch.tensor", "torch.as_tensor", "torch.asarray"})
# Functions, and methods of tensors, that draw from torch's generator.
DRAWS: Final = frozenset({
    "torch.bernoulli", "torch.multinomial", "torch.normal", "torch.poisson", "torch.rand",
    "torch.rand_like", "torch.randint", "torch.randint_like", "torch.randn", "torch.randn_like",
    "torch.randperm",
    ".bernoulli", ".bernoulli_", ".cauchy_", ".exponential_", ".geometric_", ".log_normal_",
    ".multinomial", ".normal_", ".random_", ".uniform_",
})  # fmt: skip
# About the machine or the process, never about a value.
PYTHON_PREFIXES: Final = (
    "torch.accelerator.",
    "torch.backends.",
    "torch.compiler.",
    "torch.cuda.",
    "torch.mps.",
    "torch.overrides.",
    "torch.version.",
    "torch.xpu.",
)
LEGACY_CONSTRUCTOR_PREFIX: Final = "torch.cuda."

# Settings of the process, which may differ in the next call.
MODE_PREFIXES: Final = ("torch.get_default_", "torch.is_autocast_", "torch.get_autocast_",
                        "torch.are_deterministic_algorithms_", "torch.get_num_threads",
                        "torch.get_float32_matmul_precision")  # fmt: skip
# Answered while recording; the result is plain Python.
PYTHON_RESULTS: Final = frozenset({
    "torch.is_tensor", "torch.is_grad_enabled", "torch.is_floating_point", "torch.is_complex",
    "torch.device", "torch.finfo", "torch.iinfo", "torch.Size", "torch.cuda.is_available",
    "torch.cuda.current_device",
    "torch.numel", "torch.jit.annotate", "torch.jit.is_scripting", "torch.jit.is_tracing",
    "torch.onnx.is_in_onnx_export", "torch.compiler.is_compiling", "torch.broadcast_shapes",
})  # fmt: skip
SEQUENCE_RESULTS: Final = frozenset({
    "torch.split", "torch.chunk", "torch.unbind", "torch.tensor_split", "torch.topk",
    "torch.sort", "torch.meshgrid", "torch.broadcast_tensors", "torch.svd", "torch.qr",
    "torch.linalg.svd", "torch.linalg.qr", "torch.linalg.eigh",
})  # fmt: skip
GRAD_MODE: Final = frozenset({"torch.set_grad_enabled"})

# Contexts that are recorded as `with` blocks of the graph.
CONTEXTS: Final = frozenset({
    "torch.no_grad", "torch.enable_grad", "torch.set_grad_enabled", "torch.inference_mode",
    "torch.autograd.no_grad", "torch.autograd.enable_grad", "torch.autograd.set_grad_enabled",
    "torch.autograd.inference_mode", "torch.autograd.grad_mode.no_grad",
    "torch.autograd.grad_mode.enable_grad", "torch.autocast", "torch.amp.autocast",
    "torch.cuda.amp.autocast", "torch.cpu.amp.autocast", "torch.cuda.amp.autocast_mode.autocast",
    "torch.autograd.profiler.record_function", "torch.profiler.record_function",
    "warnings.catch_warnings", "contextlib.nullcontext", "torch.random.fork_rng",
})  # fmt: skip
# Those of them that wrap a function when they are written as a decorator.
WRAPPERS: Final = frozenset(
    {name for name in CONTEXTS if name.startswith("torch.") and not name.endswith("fork_rng")}
)
# Decorators which `@subflow` may be written above.
SUBFLOW_BELOW: Final = WRAPPERS | {"torch.jit.ignore", "torch.jit.unused", "torch.jit.export",
                                   "typing.override"}  # fmt: skip

# Layers without parameters or buffers: they may be created in a forward, always in training mode.
STATELESS_LAYERS: Final = frozenset({
    "torch.nn.ReLU", "torch.nn.ReLU6", "torch.nn.LeakyReLU", "torch.nn.ELU", "torch.nn.SELU",
    "torch.nn.GELU", "torch.nn.SiLU", "torch.nn.Mish", "torch.nn.Tanh", "torch.nn.Sigmoid",
    "torch.nn.Softmax", "torch.nn.LogSoftmax", "torch.nn.Softplus", "torch.nn.Hardtanh",
    "torch.nn.LogSigmoid", "torch.nn.Softmax2d", "torch.nn.Identity", "torch.nn.Flatten",
    "torch.nn.MaxPool1d", "torch.nn.MaxPool2d", "torch.nn.MaxPool3d", "torch.nn.AvgPool1d",
    "torch.nn.AvgPool2d", "torch.nn.AvgPool3d", "torch.nn.AdaptiveAvgPool1d",
    "torch.nn.AdaptiveAvgPool2d", "torch.nn.AdaptiveAvgPool3d", "torch.nn.AdaptiveMaxPool1d",
    "torch.nn.AdaptiveMaxPool2d", "torch.nn.Upsample", "torch.nn.PixelShuffle",
    "torch.nn.UpsamplingBilinear2d", "torch.nn.UpsamplingNearest2d", "torch.nn.ZeroPad2d",
    "torch.nn.ReflectionPad2d", "torch.nn.ReplicationPad2d", "torch.nn.ConstantPad2d",
    "torch.nn.MSELoss", "torch.nn.L1Loss", "torch.nn.CrossEntropyLoss", "torch.nn.BCELoss",
    "torch.nn.BCEWithLogitsLoss", "torch.nn.NLLLoss", "torch.nn.SmoothL1Loss",
    "torch.nn.KLDivLoss", "torch.nn.CosineSimilarity", "torch.nn.Unfold", "torch.nn.Fold",
    "torch.nn.ConstantPad1d", "torch.nn.ConstantPad3d", "torch.nn.ZeroPad1d", "torch.nn.ZeroPad3d",
    "torch.nn.ReflectionPad1d", "torch.nn.ReplicationPad1d", "torch.nn.ReplicationPad3d",
    "torch.nn.Dropout", "torch.nn.Dropout1d", "torch.nn.Dropout2d", "torch.nn.Dropout3d",
    "torch.nn.AlphaDropout", "torch.nn.CELU", "torch.nn.GLU", "torch.nn.Threshold",
    "torch.nn.Hardsigmoid", "torch.nn.Hardswish", "torch.nn.Hardshrink", "torch.nn.Softshrink",
    "torch.nn.Softsign", "torch.nn.Tanhshrink", "torch.nn.PixelUnshuffle", "torch.nn.HuberLoss",
})  # fmt: skip

# Of them those that may be given a tensor to keep.
WEIGHTED_LOSSES: Final = frozenset({"CrossEntropyLoss", "BCELoss", "BCEWithLogitsLoss", "NLLLoss"})

MODULE_METHODS: Final = frozenset({
    "parameters", "named_parameters", "buffers", "named_buffers", "state_dict", "train", "eval",
    "zero_grad", "requires_grad_", "apply", "to", "cuda", "cpu", "get_submodule", "get_parameter",
    "get_buffer", "extra_repr", "half", "float", "double",
})  # fmt: skip
# Those of them that change the module.
MODULE_MOVERS: Final = frozenset({"to", "cuda", "cpu", "half", "float", "double", "bfloat16",
                                  "to_empty", "type"})  # fmt: skip
# Names below torch.nn that cannot be extended by a described class, or are no layers at all.
NOT_EXTENDED: Final = ("Lazy", "DataParallel", "Parameter", "Buffer", "Uninitialized")
# Packages whose classes are modules; a class with its own forward may extend them.
# Classes of packages without a forward, below which models are written.
FOREIGN_BASES: Final = frozenset({
    "transformers.PreTrainedModel", "transformers.modeling_utils.PreTrainedModel",
    "transformers.modeling_layers.GradientCheckpointingLayer",
})  # fmt: skip
# They bring methods that call the model as anybody does.
MIXINS: Final = frozenset({
    "transformers.GenerationMixin", "transformers.generation.GenerationMixin",
    "transformers.generation.utils.GenerationMixin",
})  # fmt: skip
# Texts that the bases of a package search for in the file of a model, by the name of the base:
# `set_attn_implementation` of transformers refuses a file with such a class but without its interface.
SEARCHED_TEXTS: Final = (("PreTrainedModel", r"class \w+Attention\(nn.Module\)"),)
MODULE_PACKAGES: Final = ("torchvision.models.", "torchvision.ops.", "timm.models.")


def is_foreign_module(dotted: str) -> bool:
    """Return True if a full name is that of a module class of another package."""
    name = dotted.rpartition(".")[2]
    if dotted in FOREIGN_BASES:
        return True
    return dotted.startswith(MODULE_PACKAGES) and name[:1].isupper() and "Weights" not in name


# Classes of torch that have no forward: containers, and bases of layers.
FORWARDLESS: Final = frozenset({"ModuleList", "ModuleDict", "ParameterList", "ParameterDict",
                                "_Loss", "_WeightedLoss", "_ConvNd", "_DropoutNd", "_MaxPoolNd",
                                "_AvgPoolNd", "_NormBase", "RNNCellBase",
                                "PreTrainedModel", "GradientCheckpointingLayer"})  # fmt: skip

# They take a truth that is known, and return nothing.
CHECK_PREFIXES: Final = ("torch._check", "torch._assert")

CHILD_ITERATORS: Final = frozenset({"children", "modules"})
NAMED_CHILD_ITERATORS: Final = frozenset({"named_children", "named_modules"})
MODULE_MUTATORS: Final = frozenset({
    "register_buffer", "register_parameter", "add_module", "register_module",
    "register_forward_hook", "load_state_dict", "train", "eval", "requires_grad_", "apply",
    "zero_grad", "register_forward_pre_hook",
})  # fmt: skip
