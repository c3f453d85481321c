"""Facts about code objects: computed once for each object, and forgotten before they are too many."""

from flodl.bytecode import facts
from flodl.bytecode.facts import kept_by_identity


def counted():
    asked = []

    @kept_by_identity
    def fact(code, *args, **named):
        asked.append(code)
        return code.co_name, args, named

    return asked, fact


def code_of(text):
    return compile(text, "<facts>", "eval")


def test_fact_of_one_object_is_computed_once():
    asked, fact = counted()
    code = code_of("1 + x")
    assert fact(code) is fact(code)
    assert len(asked) == 1


def test_fact_of_an_equal_object_is_computed_for_itself():
    asked, fact = counted()
    one, other = code_of("1 + x"), code_of("1 + x")
    assert one == other
    fact(one), fact(other)
    assert [each is one for each in asked] == [True, False]


def test_fact_depends_on_all_arguments():
    asked, fact = counted()
    code = code_of("1 + x")
    assert fact(code, "a") == ("<module>", ("a",), {})
    assert fact(code, "b", c=1) == ("<module>", ("b",), {"c": 1})
    assert fact(code, "b", c=2) == ("<module>", ("b",), {"c": 2})
    assert fact(code) == ("<module>", (), {})
    assert len(asked) == 4


def test_facts_are_forgotten_where_they_are_too_many(monkeypatch):
    monkeypatch.setattr(facts, "MOST", 2)
    asked, fact = counted()
    codes = [code_of(f"{n} + x") for n in range(3)]
    for each in codes:
        fact(each)
    fact(codes[2])
    assert len(asked) == 3
    fact(codes[0])
    assert len(asked) == 4
