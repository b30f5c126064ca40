"""Values that are quick to make: ``dataclasses.dataclass``, for a third of its memory and time.

The standard library writes the source of each method of each class and compiles it. A frozen class has six of
them, which is 14 KiB and half a millisecond, and a starting agent makes 350 such classes. Here one
``__eq__``, ``__hash__``, ``__repr__``, ``__setattr__`` and ``__delattr__`` serve all of them, and
``__init__`` alone, which has to be fast, is written for each class. All else is the standard library's:
``field``, ``fields``, ``replace`` and ``match`` work as they do with its own classes, but that each field is
given: ``init=False`` is not known here.

To a type checker this is ``dataclasses.dataclass``.
"""

import dataclasses
from collections.abc import Callable
from dataclasses import MISSING, FrozenInstanceError, fields
from operator import attrgetter
from typing import TYPE_CHECKING, Final, TypeVar

from typing_extensions import override

T = TypeVar("T")
_ANEW: Final = object()
"""The default of an argument whose value is made anew each time."""
_SET: Final = object.__setattr__
_PARTS: Final = "__parts__"
_FREEZING: Final = ("__setattr__", "__delattr__", "__getstate__", "__setstate__")
"""Nothing of a frozen value can be set; the last two are for its copies."""


def _values(
    *, frozen: bool = False, slots: bool = False, kw_only: bool = False, eq: bool = True, order: bool = False
) -> Callable[[type[T]], type[T]]:
    """Make a class of values, as ``dataclasses.dataclass`` does with the same arguments."""

    def made(plain: type[T]) -> type[T]:
        if order or not slots:
            return dataclasses.dataclass(frozen=frozen, slots=slots, kw_only=kw_only, eq=eq, order=order)(
                plain
            )
        # Where there is none, the standard library asks for the signature, which takes as long as all else.
        plain.__doc__ = plain.__doc__ or plain.__name__
        own = dict(vars(plain))
        kind = dataclasses.dataclass(init=False, repr=False, eq=False, slots=True, kw_only=kw_only)(plain)
        methods: dict[str, object] = {"__init__": _init(kind, frozen=frozen), "__repr__": _Shared.__repr__}
        if eq:
            setattr(kind, _PARTS, _parts(kind))
            methods |= {"__eq__": _Shared.__eq__, "__hash__": _Shared.__hash__ if frozen else None}
        if frozen:
            methods |= {name: vars(_Shared)[name] for name in _FREEZING}
        for name, method in methods.items():
            # A class that has its own keeps it; a None is Python's, of who has an __eq__ and no __hash__.
            if own.get(name) is None:
                setattr(kind, name, method)
        return kind

    return made


def _init(kind: type[T], *, frozen: bool) -> Callable[..., None]:
    """Write the method that takes a value for each field."""
    known: dict[str, object] = {"__set__": _SET, "__anew__": _ANEW}
    words: list[str] = ["self"]
    named: list[str] = []
    lines: list[str] = []
    for each in fields(kind):  # type: ignore[arg-type] # it has just been made one
        # No field's name leads to what is known here under another.
        name, default, value, usual = each.name, "", each.name, f"__of_{each.name}__"
        if each.default is not MISSING:
            known[usual], default = each.default, f"={usual}"
        elif each.default_factory is not MISSING:
            known[usual], default = each.default_factory, "=__anew__"
            value = f"{usual}() if {name} is __anew__ else {name}"
        (named if each.kw_only else words).append(f"{name}{default}")
        lines.append(f"__set__(self, {name!r}, {value})" if frozen else f"self.{name} = {value}")
    if hasattr(kind, "__post_init__"):
        lines.append("self.__post_init__()")
    arguments = ", ".join([*words, *(["*", *named] if named else [])])
    source = f"def __init__({arguments}):\n  " + "\n  ".join(lines or ["pass"])
    exec(source, known)  # noqa: S102 - names of fields and nothing else, as the standard library does
    init: Callable[..., None] = known.pop("__init__")  # type: ignore[assignment] # what was just written
    init.__qualname__, init.__module__ = f"{kind.__qualname__}.__init__", kind.__module__
    return init


def _parts(kind: type[T]) -> "attrgetter[tuple[object, ...]]":
    """Reads what makes two values equal, always as a tuple: of one name ``attrgetter`` would make none."""
    names = [each.name for each in fields(kind) if each.compare]  # type: ignore[arg-type] # as above
    return attrgetter(*names) if len(names) > 1 else attrgetter(*2 * (names or ["__class__"]))


class _Shared:
    """The methods that all classes have in common."""

    @override
    def __repr__(self) -> str:
        shown = (each.name for each in fields(self) if each.repr)  # type: ignore[arg-type] # lent to such a class
        said = ", ".join(f"{name}={getattr(self, name)!r}" for name in shown)
        return f"{type(self).__qualname__}({said})"

    @override
    def __eq__(self, other: object) -> bool:
        if other.__class__ is not self.__class__:
            return NotImplemented
        parts: Callable[[object], object] = getattr(self, _PARTS)
        return bool(parts(self) == parts(other))

    @override
    def __hash__(self) -> int:
        parts: Callable[[object], object] = getattr(self, _PARTS)
        return hash(parts(self))

    @override
    def __setattr__(self, name: str, value: object) -> None:
        raise FrozenInstanceError(f"cannot assign to field {name!r}")

    @override
    def __delattr__(self, name: str) -> None:
        raise FrozenInstanceError(f"cannot delete field {name!r}")

    @override
    def __getstate__(self) -> list[object]:
        return [getattr(self, each.name) for each in fields(self)]  # type: ignore[arg-type] # as above

    def __setstate__(self, state: list[object]) -> None:
        for each, value in zip(fields(self), state, strict=True):  # type: ignore[arg-type] # as above
            _SET(self, each.name, value)


if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass  # noqa: PLC0414 - to checkers the name is that of the library
else:
    dataclass = _values
