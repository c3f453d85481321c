"""Which attributes a piece of code fills, as its bytecode tells."""

import pytest

from flodl.tracing.effects.mutated_attributes import live_names


class Owner:
    def set(self, x):
        self.a = x

    def item(self, x):
        self.a[x.size(0)] = x

    def in_place(self, x):
        self.a["k"] += x

    def in_place_by_size(self, x):
        self.a[x.size(0)] += x

    def nested(self, x):
        self.a["k"][x.size(0)]["c"] = x

    def appended(self, x):
        self.a[x.size(0)].append(x)

    def called_with_more(self, x):
        self.a[x.size(0), 1].extend([x, self.b[0]])

    def chosen(self, x):
        self.a[0 if x else 1].append(x)

    def deleted(self, x):
        del self.a[x.key(1)]

    def sliced(self, x):
        self.a[1:2] = x

    def in_a_loop(self, x):
        for i, each in enumerate(self.b):
            self.a[i if each else 0] = x + self.c

    def guarded(self, x):
        try:
            with self.b:
                self.a.update(k=x)
        except ValueError:
            return self.c

    def only_read(self, x):
        found = [self.b[i] for i in x] + self.c.get(x, self.d)
        found.append(self.e if x else self.f)
        return found


FILLING = [name for name in vars(Owner) if not name.startswith("_") and name != "only_read"]


@pytest.mark.parametrize("name", FILLING)
def test_what_is_filled_is_found(name):
    assert live_names(getattr(Owner, name), Owner) == {"a"}


def test_what_is_only_read_is_not():
    assert live_names(Owner.only_read, Owner) == frozenset()
