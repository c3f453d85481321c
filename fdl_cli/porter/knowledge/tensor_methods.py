"""Methods and attributes of tensors by what comes out of them."""

from typing import Final

# The value of the tensor itself is asked for: a graph cannot describe that.
VALUE_METHODS: Final = frozenset({"item", "tolist", "numpy", "__array__", "nonzero_static"})
HOOK_METHODS: Final = frozenset({"register_hook"})

SIZE_METHODS: Final = frozenset({"size", "dim", "numel", "ndimension", "nelement", "stride",
                                 "storage_offset", "element_size"})  # fmt: skip
SIZE_ATTRIBUTES: Final = frozenset({"shape", "ndim"})
PYTHON_METHODS: Final = frozenset({"is_contiguous", "is_floating_point", "is_complex",
                                   "get_device", "is_same_size", "data_ptr"})  # fmt: skip
PYTHON_ATTRIBUTES: Final = frozenset({"device", "dtype", "is_cuda", "requires_grad", "layout",
                                      "is_sparse", "is_leaf", "grad_fn"})  # fmt: skip
SEQUENCE_METHODS: Final = frozenset({"split", "chunk", "unbind", "tensor_split", "topk", "sort",
                                     "split_with_sizes", "hsplit", "vsplit"})  # fmt: skip
PARAMETER_ATTRIBUTES: Final = frozenset({"weight", "bias", "weight_ih", "weight_hh", "running_mean",
                                         "running_var", "in_proj_weight", "in_proj_bias"})  # fmt: skip

# A view of the same memory: writing into the result writes into the receiver.
VIEW_METHODS: Final = frozenset({
    "view", "reshape", "transpose", "permute", "squeeze", "unsqueeze", "contiguous", "flatten",
    "expand", "expand_as", "narrow", "select", "t", "to", "float", "type_as", "detach", "view_as",
    "unflatten", "movedim", "swapaxes", "cuda", "cpu", "requires_grad_", "unfold", "diagonal",
    "squeeze_", "unsqueeze_", "double", "half", "long", "int", "bool", "type",
})  # fmt: skip
