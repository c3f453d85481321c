"""Guards on identity: objects stay different ones, and a method that each access binds has no identity."""

import torch

from flodl.tracing.reads.identity_checks import Comparisons


def compares(one, other):
    return one is other


class Holder:
    def method(self):
        return self


def guard_of(*read):
    comparisons = Comparisons()
    comparisons.add(1, compares.__code__)
    return comparisons.check({id(value): (value, place) for value, place in read}, {1})


def test_guard_of_two_objects_keeps_them_apart():
    guard = guard_of((torch.ones(1), "self.a"), (torch.ones(1), "self.b"))
    assert guard == "len({id(self.a), id(self.b)}) == 2"


def test_guard_leaves_out_methods_that_each_access_binds():
    weight, holder = torch.ones(1), Holder()
    methods = [weight.size, weight.is_floating_point, holder.method]
    places = ["self.w.size", "self.w.is_floating_point", "self.h.method"]
    read = zip(methods, places, strict=True)
    guard = guard_of((weight, "self.w"), (holder, "self.h"), *read)
    assert guard == "len({id(self.h), id(self.w)}) == 2"


def test_guard_keeps_a_method_that_is_stored():
    holder = Holder()
    holder.method = holder.method  # one object from now on
    guard = guard_of((holder, "self.h"), (holder.method, "self.h.method"))
    assert guard == "len({id(self.h), id(self.h.method)}) == 2"
