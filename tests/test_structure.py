"""Tests are tables with flags: none knows a method by its name."""

import ast

import pytest

from heavystep import methods
from tests.helpers.places import ROOT

TESTS = ROOT / "tests"
# They write the paper's loops down once more and are told the rule by its name.
LITERAL_LOOPS = {"reference.py", "helpers/runs.py"}


def files():
    return sorted(TESTS.rglob("*.py"))


def conditions(tree):
    """What decides which way a test goes, but not what it asserts."""
    for node in ast.walk(tree):
        if isinstance(node, ast.If | ast.While | ast.IfExp):
            yield node.test
        elif isinstance(node, ast.comprehension):
            yield from node.ifs


def asked_for(condition):
    """The names of methods, rules and optimizers that a condition asks for."""
    rows = methods.METHODS.values()
    names = {name for row in rows for name in (row.name, row.title, row.rule.name)}
    words = {word.lower() for word in names} | {"polyak", "armijo"}
    words -= {"heavystep"}  # the package has this name, too
    for node in ast.walk(condition):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from (word for word in words if word in node.value.lower())
        elif isinstance(node, ast.Name | ast.Attribute):
            called = node.id if isinstance(node, ast.Name) else node.attr
            yield from {called} & {row.name for row in rows}
            yield from {called} & {"__name__"}


@pytest.mark.parametrize("path", files(), ids=lambda path: path.relative_to(TESTS).as_posix())
def test_nothing_is_recognised_by_its_name(path):
    """A test asks a table what a method can do, so that a new method is one more row."""
    if path.relative_to(TESTS).as_posix() in LITERAL_LOOPS:
        return
    for condition in conditions(ast.parse(path.read_text())):
        if ast.unparse(condition) != "__name__ == '__main__'":
            found = sorted(set(asked_for(condition)))
            assert not found, f"line {condition.lineno} asks for {', '.join(found)}"
