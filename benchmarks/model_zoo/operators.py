"""The operators of torchvision's C++ library that its models need, in plain torch.

The wheel's library may be built for another machine, and its Python source cannot even be imported
without the schemas. This text is added to the `extension.py` of the copy, the same for the original
and the port; `torchvision.ops` then takes its own Python versions of the rest.
"""

import torch

_library = torch.library.Library("torchvision", "FRAGMENT")
for _name in ("nms", "qnms"):
    if not hasattr(torch.ops.torchvision, _name):
        _library.define(f"{_name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")


def _nms(dets, scores, iou_threshold):  # noqa: ANN001, ANN202
    """Keep the best of every group of boxes that overlap by more than the threshold."""
    order = scores.argsort(descending=True, stable=True)
    areas = (dets[:, 2] - dets[:, 0]) * (dets[:, 3] - dets[:, 1])
    kept = []
    while order.numel():
        best, order = order[0], order[1:]
        kept.append(best)
        low = torch.maximum(dets[best, :2], dets[order, :2])
        high = torch.minimum(dets[best, 2:], dets[order, 2:])
        shared = (high - low).clamp(min=0).prod(dim=1)
        overlap = shared / (areas[best] + areas[order] - shared)
        order = order[overlap <= iou_threshold]
    return torch.stack(kept) if kept else order


_library.impl("nms", _nms, "CPU")


def _assert_has_ops():  # noqa: ANN202
    """Stand in for the check of the C++ library: what is missing fails at its own call."""
