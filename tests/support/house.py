"""What holds the house to its plan: who may import whom, and how large anything may be.

The table of floors is that of the design. A module imports lower floors and its own room, never a
sibling room, never up; imports for types and inside functions count. ``tests/test_layers.py`` holds the
house to it, and this checker to small houses that are wrong in one way.
"""

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

# Rooms by the beginning of their modules' names, with their floor. The longest beginning counts.
FLOORS: Final[Mapping[str, int]] = {
    "edgeagent.errors": 0,
    "edgeagent.values": 0,
    "edgeagent.clock": 1,
    "edgeagent.ids": 2,
    "edgeagent.contracts": 3,
    "edgeagent.core": 4,
    "edgeagent.ports": 5,
    "edgeagent.doorkeeper": 5,
    "edgeagent.metrics": 5,
    "edgeagent.store": 6,
    "edgeagent.flows": 7,
    "edgeagent.adapters": 7,
    "edgeagent.config": 8,
    "edgeagent.sections": 8,
    "edgeagent.config_keys": 8,
    "edgeagent.config_reading": 8,
    "edgeagent.config_remains": 8,
    "edgeagent.config_places": 8,
    "edgeagent.config_mistakes": 8,
    "edgeagent.config_values": 8,
    "edgeagent.settings": 8,
    "edgeagent.secret_files": 8,
    "edgeagent.profiles": 8,
    "edgeagent.logs": 8,
    "edgeagent.rights": 8,
    "edgeagent.agent": 9,
    "edgeagent.support": 9,
    "edgeagent.worker": 9,
    "edgeagent.setup": 9,
    "edgeagent.fetcher": 9,
    "edgeagent.cli": 10,
    "edgeagent.__main__": 11,
}
# One room in several files: the configuration, its sections, and what it makes of itself for the other rooms.
SAME_ROOM: Final = {
    "edgeagent.sections": "edgeagent.config",
    "edgeagent.config_keys": "edgeagent.config",
    "edgeagent.config_reading": "edgeagent.config",
    "edgeagent.config_remains": "edgeagent.config",
    "edgeagent.config_places": "edgeagent.config",
    "edgeagent.config_mistakes": "edgeagent.config",
    "edgeagent.config_values": "edgeagent.config",
    "edgeagent.settings": "edgeagent.config",
    "edgeagent.secret_files": "edgeagent.config",
    "edgeagent.profiles": "edgeagent.config",
}

# Modules that see less than their floor does, so that the worker without network can run them; each other
# they see.
LOWERED: Final = {
    "edgeagent.flows.dispatch": 5,
    "edgeagent.flows.exchange": 5,
    "edgeagent.flows.firmware": 5,
    "edgeagent.flows.sagas": 5,
}
# What the worker may not reach, by whatever way.
NOT_FOR_THE_WORKER: Final = ("edgeagent.store", "edgeagent.adapters.cloud", "edgeagent.adapters.mqtt")
# What the issuing side may use: the floors up to this one, and a few rooms above.
HIGHEST_OF_THE_ISSUER: Final = 5
FOR_THE_ISSUER: Final = ("edgeagent.adapters.cloud", "edgeagent.store.database", "edgeagent.store.files")

NOT_IN_THE_CORE: Final = frozenset(
    {"asyncio", "os", "pathlib", "random", "secrets", "socket", "sqlite3", "subprocess", "threading", "time"}
)
THE_PRESENT: Final = frozenset({"now", "utcnow", "today"})

NO_NAMES: Final = frozenset({"utils", "util", "helpers", "helper", "common", "manager", "types", "const"})
FILE_LINES, FUNCTION_LINES, ARGUMENTS = 400, 40, 8


@dataclass(frozen=True)
class Import:
    """One name that a module imports: what it stands for, and whether that happens on import."""

    target: str
    line: int
    inside: bool


@dataclass(frozen=True)
class Module:
    """A file of Python."""

    name: str
    path: Path
    lines: int
    tree: ast.Module
    imports: tuple[Import, ...]


House = Mapping[str, Module]


def read(root: Path, package: str) -> House:
    """All modules of a package by name."""
    trees = {}
    for path in sorted((root / package).rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        text = path.read_text("utf-8")
        trees[name] = (path, text.count("\n"), ast.parse(text, str(path)))
    return {
        name: Module(name, path, lines, tree, tuple(_imports(tree, frozenset(trees))))
        for name, (path, lines, tree) in trees.items()
    }


def _imports(tree: ast.Module, known: frozenset[str]) -> Iterator[Import]:
    inside = {id(node) for later in ast.walk(tree) if _runs_later(later) for node in ast.walk(later)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            # `from package import module` brings the module, `from module import name` the module too.
            whole = [f"{base}.{alias.name}" for alias in node.names]
            names = [name if name in known else base for name in whole]
        else:
            continue
        for name in names:
            yield Import(name, node.lineno, id(node) in inside)


def _runs_later(node: ast.AST) -> bool:
    """Whether what is in it is not run when the module is imported: a function, a block for types."""
    if isinstance(node, ast.If):
        return isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)


def room_of(name: str) -> tuple[str, int] | None:
    """The room and floor of a module; None for one that stands in no room."""
    fitting = [room for room in FLOORS if _within(name, room)]
    if not fitting:
        return None
    room = max(fitting, key=len)
    floor = FLOORS[room]
    if room == "edgeagent.adapters":
        # Each thing outside has a room of its own.
        room = ".".join(name.split(".")[:3])
    return SAME_ROOM.get(room, room), floor


def _within(name: str, package: str) -> bool:
    return name == package or name.startswith(f"{package}.")


def wrong_imports(house: House) -> list[str]:
    """Imports that do not go down, and modules that stand nowhere."""
    faults = [
        f"{name} stands in no room"
        for name in house
        if room_of(name) is None and name != "edgeagent" and not _within(name, "edgeagent.issuer")
    ]
    return faults + [
        f"{module.name}:{each.line} {fault} {each.target}"
        for module in house.values()
        for each in module.imports
        if _within(each.target, "edgeagent") and (fault := _fault(module.name, each))
    ]


def _fault(name: str, each: Import) -> str:
    """What is wrong with an import; empty if nothing is."""
    if _within(name, "edgeagent.issuer"):
        return _fault_of_the_issuer(each)
    if _within(each.target, "edgeagent.issuer"):
        return _fault_of_who_takes_the_issuer(name, each)
    own, target = room_of(name), room_of(each.target)
    if own is None or target is None:
        return "imports what stands in no room:"
    if target[1] > LOWERED.get(name, target[1]) and each.target not in LOWERED:
        return f"sees floors 0 to {LOWERED[name]} only, not"
    if target[0] != own[0] and target[1] >= own[1]:
        return "imports sideways:" if target[1] == own[1] else "imports up:"
    return ""


def _fault_of_who_takes_the_issuer(name: str, each: Import) -> str:
    if not name.startswith("edgeagent.cli.issuer"):
        return "may not know the issuer:"
    return "" if each.inside else "imports the issuer outside of a function:"


def _fault_of_the_issuer(each: Import) -> str:
    target = room_of(each.target)
    if target is not None and target[1] <= HIGHEST_OF_THE_ISSUER:
        return ""
    allowed = ("edgeagent.issuer", *FOR_THE_ISSUER)
    return "" if any(_within(each.target, room) for room in allowed) else "is the issuer's and takes"


def cycles(house: House) -> list[str]:
    """Modules that import each other, however many stand between them."""
    reached = {name: _reached(house, name) for name in house}
    return sorted(f"{name} imports itself again" for name in house if name in reached[name])


def _reached(house: House, start: str) -> set[str]:
    """Every module of the house that a module imports, and so on."""
    found: set[str] = set()
    ahead = [start]
    while ahead:
        new = {each.target for each in house[ahead.pop()].imports if each.target in house} - found
        found |= new
        ahead += new
    return found


def what_the_worker_reaches(house: House) -> list[str]:
    """What the worker would load although it has no network, store or broker."""
    if "edgeagent.worker" not in house:
        return []
    reached = _reached(house, "edgeagent.worker")
    return sorted(name for name in reached if any(_within(name, room) for room in NOT_FOR_THE_WORKER))


def impure(house: House) -> list[str]:
    """What in the core could wait, read, write, or know the time by itself."""
    faults = []
    for module in house.values():
        if not _within(module.name, "edgeagent.core"):
            continue
        faults += [
            f"{module.name}:{each.line} imports {each.target}"
            for each in module.imports
            if each.target.split(".")[0] in NOT_IN_THE_CORE
        ]
        faults += [
            f"{module.name}:{node.lineno} asks for the present"
            for node in ast.walk(module.tree)
            if isinstance(node, ast.Call) and _called(node) in THE_PRESENT
        ]
    return faults


def _called(call: ast.Call) -> str:
    if isinstance(call.func, ast.Attribute):
        return call.func.attr
    return call.func.id if isinstance(call.func, ast.Name) else ""


def oversized(house: House) -> list[str]:
    """Files, functions and constructors beyond their budget.

    A function's lines are counted from its first statement: a long signature or docstring is no fault.
    """
    faults = []
    for module in house.values():
        if module.lines > FILE_LINES:
            faults.append(f"{module.name} has {module.lines} lines")
        for node in ast.walk(module.tree):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            place = f"{module.name}:{node.lineno} {node.name}"
            if (lines := _lines(node)) >= FUNCTION_LINES:
                faults.append(f"{place} has {lines} lines")
            given = len(node.args.posonlyargs) + len(node.args.args) + len(node.args.kwonlyargs) - 1
            if node.name == "__init__" and given >= ARGUMENTS:
                faults.append(f"{place} has {given} arguments")
    return faults


def _lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    body = function.body
    if isinstance(body[0], ast.Expr) and ast.get_docstring(function) is not None:
        body = body[1:]
    return 0 if not body else (body[-1].end_lineno or 0) - body[0].lineno + 1


def misnamed(house: House) -> list[str]:
    """Modules named after nothing, and packages that do something on import."""
    faults = [f"{name} is named after nothing" for name in house if name.split(".")[-1] in NO_NAMES]
    return faults + [
        f"{module.name}/__init__.py is more than a docstring"
        for module in house.values()
        if module.path.name == "__init__.py" and not _only_a_docstring(module.tree)
    ]


def _only_a_docstring(tree: ast.Module) -> bool:
    return len(tree.body) == 1 and ast.get_docstring(tree) is not None


def knows_the_agent(house: House) -> list[str]:
    """Modules that import edgeagent: from outside it may be spoken to only."""
    return [
        f"{module.name}:{each.line} imports {each.target}"
        for module in house.values()
        for each in module.imports
        if _within(each.target, "edgeagent")
    ]
