"""Small functions that every version of Python must compile to the same normalised instructions."""

# ruff: noqa: B018, T201, UP008


def two_locals(x, y):
    return x * y


def swapped(x, y):
    x, y = y, x
    return x


def unpacked(f, x):
    a, (b, *c) = f(x)
    return a, b, c


def none_test(self, x):
    if self.scale is not None:
        x = x * self.scale
    return x


def none_value(x):
    return x is None, x is not None


def none_tests_joined(x, y):
    return x is None or y is not None


def walrus(f, x):
    if (y := f(x)) is None:
        return x
    return y


def identity(x, y):
    return x is y


def truth(x):
    return not x


def truths(x, y):
    return x and y


def branch(x):
    if x:
        return 1.5
    return 2.5


def comparison(x, y):
    if x < y:
        x = y
    return x == y


def containment(x, y):
    if x in y:
        return x
    return x not in y


def method(self, x):
    return self.block.forward(x)


def callable_attribute(self, x):
    return (self.block.act)(x)


def keywords(f, x):
    return f(x, dim=x, keepdim=True)


def unpacked_call(self, args, names):
    return self.f(*args, **names)


def global_call(x):
    return print(abs(x))


def subscripts(x, i):
    x[i] = x[i + i]
    del x[i]
    return x


def slices(x, i):
    x[i:] = x[:i]
    return x


def stored_attribute(self, x):
    self.count += x
    del self.old


def collected(f, x):
    return [x, f(x)], (x, f), {x, f}, {x: f}


def constant_result(x):
    x


def text(x):
    return f"{x} of {x:>9}"


def positive(x):
    return +x, -x, ~x


def nonlocal_variable(x):
    lambda: x
    x = x + 1.5
    return x


def class_pattern(x):
    match x:
        case complex(real=y):
            return y
    return x


def attribute_of_class(x):
    return x.__class__


def checked(x, y):
    if x:
        z = y
    return z


class Base:
    def attribute(self):
        return super(Base, self).name

    def call(self, x):
        return super(Base, self).forward(x)
