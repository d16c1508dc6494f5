"""Whether a test asserts on every way through it, with assertions that can fail. Part of the lint in lint.py.

Certain faults only: a loop over something that a test asserted before is honest, one over a list that may be empty and
that nothing was asserted of proves nothing.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

Function = ast.FunctionDef
PASSING_ON = {"sorted", "list", "tuple", "set", "enumerate", "zip", "reversed"}
CATCHING_ALL = {"AssertionError", "Exception", "BaseException"}
SWALLOWING = {"suppress"}
FAILING = {"fail"}
NO_VALUE = object()


class Unproven(Exception):
    """Some way through a test proves nothing; the text says which."""


def assertion_fault(test: Function, tree: ast.Module) -> str:
    """Why a test may pass without having proven anything; empty when nothing is known."""
    for node in _own(test):
        if isinstance(node, ast.Return) and node.value is not None:
            return f"{test.name} returns a value instead of asserting it"
        if isinstance(node, ast.Yield | ast.YieldFrom):
            return f"{test.name} yields"
    try:
        falls, asserted = _Flow(tree).follow(test.body, asserted=False)
    except Unproven as fault:
        return f"{test.name} {fault}"
    return f"{test.name} asserts nothing on its main path" if falls and not asserted else ""


def constant_fault(tree: ast.Module) -> str:
    """The first assertion that cannot fail; empty when there is none."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assert) and is_always_true(node.test):
            return f"an assertion that is always true: {ast.unparse(node)[:80]}"
    return ""


def is_always_true(test: ast.expr) -> bool:
    """Whether an expression is true whatever the state is."""
    match test:
        case ast.BoolOp(op=ast.Or()):
            return any(map(is_always_true, test.values))
        case ast.BoolOp(op=ast.And()):
            return all(map(is_always_true, test.values))
        case ast.UnaryOp(op=ast.Not()):
            value = _value(test.operand)
            return value is not NO_VALUE and not value
        case ast.Tuple() | ast.List() | ast.Set():
            return any(not isinstance(one, ast.Starred) for one in test.elts)
        case ast.Dict():
            return any(key is not None for key in test.keys)
        case ast.JoinedStr():
            return any(isinstance(part, ast.Constant) and bool(part.value) for part in test.values)
        case ast.Lambda():
            return True
        case ast.Compare():
            return _compares_nothing(test)
    value = _value(test)
    return value is not NO_VALUE and bool(value)


def _compares_nothing(test: ast.Compare) -> bool:
    sides = [test.left, *test.comparators]
    values = [_value(side) for side in sides]
    if not any(value is NO_VALUE for value in values):
        # Nothing but literals: what it says does not depend on the state. One that is false fails the oracle.
        return True
    if len(test.ops) != 1:
        return False
    left, right, operator = sides[0], sides[1], test.ops[0]
    calls = any(isinstance(part, ast.Call) for part in ast.walk(test))
    if isinstance(operator, ast.Eq | ast.Is | ast.LtE | ast.GtE) and not calls:
        return ast.dump(left) == ast.dump(right)
    length = isinstance(left, ast.Call) and isinstance(left.func, ast.Name) and left.func.id == "len"
    return length and (
        (isinstance(operator, ast.GtE) and values[1] == 0) or (isinstance(operator, ast.Gt) and values[1] == -1)
    )


def _value(node: ast.expr) -> object:
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError):
        return NO_VALUE


class _Flow:
    """Follows the ways through statements."""

    def __init__(self, tree: ast.Module) -> None:
        self._functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
        self._full = _full_names(tree)
        self._leaving: list[list[bool]] = []
        self._seen: set[str] = set()

    def follow(self, body: Sequence[ast.stmt], *, asserted: bool) -> tuple[bool, bool]:
        """Whether the end is reached, and whether something was asserted on every way to it. Raises Unproven."""
        for statement in body:
            falls, asserted = self._one(statement, asserted)
            if not falls:
                return False, asserted
        return True, asserted

    def _one(self, node: ast.stmt, asserted: bool) -> tuple[bool, bool]:
        match node:
            case ast.Assert():
                return True, True
            case ast.Raise():
                return False, True
            case ast.Return():
                if not asserted:
                    raise Unproven(f"returns before it asserts (line {node.lineno})")
                return False, True
            case ast.Break() | ast.Continue():
                if self._leaving:
                    self._leaving[-1].append(asserted)
                return False, asserted
            case ast.Expr(value=ast.Call() as call):
                return self._call(call, asserted)
            case ast.Assign(value=ast.Call() as call) | ast.AnnAssign(value=ast.Call() as call):
                return True, asserted or self._call(call, asserted)[1]
            case ast.If():
                return self._branches([node.body, node.orelse], asserted)
            case ast.Match():
                bodies = [case.body for case in node.cases]
                last = node.cases[-1]
                rest = isinstance(last.pattern, ast.MatchAs) and last.pattern.pattern is None and last.guard is None
                return self._branches(bodies if rest else [*bodies, []], asserted)
            case ast.For() | ast.While():
                return self._loop(node, asserted)
            case ast.With():
                return self._with(node, asserted)
            case ast.Try():
                return self._try(node, asserted)
        return True, asserted

    def _call(self, call: ast.Call, asserted: bool) -> tuple[bool, bool]:
        name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        if name in FAILING:
            return False, True
        function = self._functions.get(name) if isinstance(call.func, ast.Name) else None
        if asserted or function is None or name in self._seen:
            return True, asserted
        self._seen.add(name)
        leaving, self._leaving = self._leaving, []
        try:
            return True, self.follow(function.body, asserted=False)[1]
        except Unproven:
            return True, False
        finally:
            self._leaving = leaving
            self._seen.discard(name)

    def _branches(self, bodies: Sequence[Sequence[ast.stmt]], asserted: bool) -> tuple[bool, bool]:
        ends = [(self.follow(body, asserted=asserted), body) for body in bodies]
        falling = [done for (falls, done), _ in ends if falls]
        # `if wrong: raise` is an assertion.
        failing = any(not falls and body and _fails(body[-1]) for (falls, _), body in ends)
        return bool(falling), failing or (all(falling) if falling else asserted)

    def _loop(self, node: ast.For | ast.While, asserted: bool) -> tuple[bool, bool]:
        self._leaving.append([])
        falls, done = self.follow(node.body, asserted=asserted)
        ways = [*self._leaving.pop(), *([done] if falls else [])]
        certain = isinstance(node, ast.For) and _is_full(node.iter, self._full)
        after = asserted or (certain and bool(ways) and all(ways))
        return True, self.follow(node.orelse, asserted=after)[1] if node.orelse else after

    def _with(self, node: ast.With, asserted: bool) -> tuple[bool, bool]:
        names = {
            item.context_expr.func.attr
            if isinstance(item.context_expr.func, ast.Attribute)
            else getattr(item.context_expr.func, "id", "")
            for item in node.items
            if isinstance(item.context_expr, ast.Call)
        }
        falls, done = self.follow(node.body, asserted=asserted)
        if names & SWALLOWING:
            return True, asserted
        # That something is refused is asserted by the context itself.
        return (True, True) if "raises" in names else (falls, done)

    def _try(self, node: ast.Try, asserted: bool) -> tuple[bool, bool]:
        if any(isinstance(part, ast.Return) for one in node.finalbody for part in ast.walk(one)):
            raise Unproven("returns from a finally, whatever failed")
        falls, done = self.follow([*node.body, *node.orelse], asserted=asserted)
        ways = [done] if falls else []
        for handler in node.handlers:
            handled, after = self.follow(handler.body, asserted=asserted)
            if handled:
                ways.append(after)
            own = any(isinstance(part, ast.Assert) for one in node.body for part in ast.walk(one))
            if own and handled and _catches_assertions(handler) and not _asserts(handler):
                raise Unproven(f"swallows its own assertion (line {handler.lineno})")
        falls, after = bool(ways), all(ways) if ways else asserted
        if node.finalbody:
            return falls, self.follow(node.finalbody, asserted=after)[1]
        return falls, after


def _own(function: Function) -> list[ast.AST]:
    """The nodes of a function without those of functions inside it."""
    found: list[ast.AST] = []
    waiting: list[ast.AST] = list(function.body)
    while waiting:
        node = waiting.pop()
        found.append(node)
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            waiting.extend(ast.iter_child_nodes(node))
    return found


def _fails(node: ast.stmt) -> bool:
    if isinstance(node, ast.Raise):
        return True
    call = node.value if isinstance(node, ast.Expr) else None
    return isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr in FAILING


def _asserts(handler: ast.ExceptHandler) -> bool:
    return any(isinstance(part, ast.Assert | ast.Raise) for one in handler.body for part in ast.walk(one))


def _catches_assertions(handler: ast.ExceptHandler) -> bool:
    if handler.type is None:
        return True
    return any(isinstance(part, ast.Name) and part.id in CATCHING_ALL for part in ast.walk(handler.type))


def _full_names(tree: ast.Module) -> set[str]:
    """Names that only ever stand for literals that are not empty."""
    full: set[str] = set()
    other: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = {target.id for target in targets if isinstance(target, ast.Name)}
            (full if _is_full(node.value, set()) else other).update(names)
    return full - other


def _is_full(node: ast.expr, known: set[str]) -> bool:
    """Whether there is certainly something to iterate over."""
    match node:
        case ast.Name():
            return node.id in known
        case ast.Call(func=ast.Name(id="range")):
            bounds = [bound for bound in map(_value, node.args) if isinstance(bound, int)]
            return len(bounds) == len(node.args) and len(range(*bounds)) > 0
        case ast.Call(func=ast.Name(id=name)) if name in PASSING_ON:
            return bool(node.args) and all(_is_full(argument, known) for argument in node.args)
        case ast.Call(func=ast.Attribute(attr="items" | "keys" | "values" | "splitlines" | "split", value=owner)):
            return _is_full(owner, known)
    value = _value(node)
    if value is not NO_VALUE:
        return isinstance(value, str | bytes | list | tuple | set | dict) and bool(value)
    elements = node.elts if isinstance(node, ast.List | ast.Tuple | ast.Set) else []
    return any(not isinstance(one, ast.Starred) for one in elements) or (isinstance(node, ast.Dict) and bool(node.keys))
