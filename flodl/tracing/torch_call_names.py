"""Names of tensor methods that need the value of the tensor."""

VALUE_METHODS = frozenset(
    {"item", "tolist", "numpy", "__bool__", "__int__", "__float__", "__index__", "__complex__",
     "__array__", "__contains__", "data_ptr"}
)  # fmt: skip
