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
    boxes = dets[order]
    areas = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    dropped = torch.zeros(len(boxes), dtype=torch.bool).numpy()
    kept = []
    for start in range(0, len(boxes), 256):  # overlaps of some rows at once
        rows = slice(start, start + 256)
        low = torch.maximum(boxes[rows, None, :2], boxes[None, :, :2])
        high = torch.minimum(boxes[rows, None, 2:], boxes[None, :, 2:])
        shared = (high - low).clamp(min=0).prod(dim=2)
        overlaps = shared / (areas[rows, None] + areas - shared)
        for place, overlap in enumerate((~(overlaps <= iou_threshold)).numpy(), start):
            if not dropped[place]:
                kept.append(place)
                dropped |= overlap
    return order[kept]


_library.impl("nms", _nms, "CPU")


def _assert_has_ops():  # noqa: ANN202
    """Stand in for the check of the C++ library: what is missing fails at its own call."""
