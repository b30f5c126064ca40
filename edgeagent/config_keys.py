"""Every key of the configuration, as people are told of it: made of the model, so that nothing is told twice.

A key's type, bounds and default are those that its value is checked with. What the model cannot say of
itself is said beside it by ``Form`` (what a text is the text of, with an example) and ``LIVE``.
"""

from collections.abc import Iterator, Sequence
from datetime import timedelta
from types import UnionType
from typing import Annotated, Final, Literal, TypeVar, Union, get_args, get_origin

from annotated_types import Ge, Le, MaxLen
from pydantic import BaseModel, JsonValue
from pydantic.fields import FieldInfo

from edgeagent.contracts.scalars import duration_text
from edgeagent.values import dataclass


@dataclass(frozen=True, slots=True)
class Form:
    """What a text is the text of.

    Attributes:
        kind: in a few words.
        example: of a value.
        allowed: its bounds, where the model cannot tell them.
    """

    kind: str
    example: str
    allowed: str = ""


@dataclass(frozen=True, slots=True)
class Live:
    """Says of a key that a new value is taken while the agent runs, once it is told to read its file."""


LIVE: Final = Live()

M = TypeVar("M", bound=BaseModel)


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """One key.

    Attributes:
        name: with its section, like ``broker.port``.
        kind: what its value is: ``text``, ``whole number``, ``length of time`` ...
        default: as it would be written; empty where it has none.
        is_required: whether it has to be there, where its section is.
        allowed: the values that it may have, in words; empty where the kind says it all.
        is_live: whether a new value is taken while the agent runs.
        example: as it would be written.
        meaning: a sentence.
    """

    name: str
    kind: str
    default: str
    is_required: bool
    allowed: str
    is_live: bool
    example: str
    meaning: str

    @property
    def variable(self) -> str:
        """The environment's name for it."""
        return "EDGEAGENT_" + self.name.upper().replace(".", "_")

    @property
    def line(self) -> str:
        """An example as it would be written in its section."""
        return f"{self.name.rpartition('.')[2]} = {self.example}"


def all_keys(model: type[BaseModel], prefix: str = "") -> list[Key]:
    """Every key there is of a model and its sections, in their order."""
    found: list[Key] = []
    for name, field in model.model_fields.items():
        inner = section_of(field)
        if inner is None:
            found.append(_key(f"{prefix}{name}", field))
        else:
            found += all_keys(inner, f"{prefix}{name}.")
    return found


def sections(model: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, str, bool]]:
    """Every section: its name, what it says of itself, and whether it may be left out with its meaning."""
    for name, field in model.model_fields.items():
        inner = section_of(field)
        if inner is not None:
            yield f"{prefix}{name}", (inner.__doc__ or "").strip(), field.default is None
            yield from sections(inner, f"{prefix}{name}.")


def section_of(field: FieldInfo) -> type[BaseModel] | None:
    """The model of a section, also of one that may be absent; None of a key."""
    parts = get_args(field.annotation) or (field.annotation,)
    return next((part for part in parts if isinstance(part, type) and issubclass(part, BaseModel)), None)


def value_of(config: BaseModel, key: Key) -> JsonValue:
    """What a key comes to; None where it, or its section, is absent. Secrets are in no key."""
    return value_at(config, key.name)


def value_at(config: BaseModel, name: str) -> JsonValue:
    """What a key or a whole section comes to, by its name; None where it is absent."""
    value: JsonValue = config.model_dump(mode="json")
    for step in name.split("."):
        value = value.get(step) if isinstance(value, dict) else None
    return value


def with_values(config: M, other: BaseModel, keys: Sequence[Key]) -> M:
    """A configuration with the values that some keys have in another; their sections are in both."""
    fields: JsonValue = config.model_dump(mode="json")
    for key in keys:
        inner = fields
        *sections_of_key, name = key.name.split(".")
        for section in sections_of_key:
            inner = inner[section] if isinstance(inner, dict) else None
        if isinstance(inner, dict):
            inner[name] = value_of(other, key)
    return type(config).model_validate(fields)


def markdown(model: type[BaseModel]) -> str:
    """All keys for a page, section by section."""
    keys = all_keys(model)
    told: list[str] = []
    head = "| key | type | default | allowed | at a reload | example | meaning |"
    for section, meaning, _ in sections(model):
        told.append(f"### `[{section}]`\n\n{meaning}\n")
        told += [head, "|---|---|---|---|---|---|---|"]
        for key in keys:
            if key.name.rpartition(".")[0] == section:
                told.append(_row(key))
        told.append("")
    return "\n".join(told)


def _row(key: Key) -> str:
    default = "required" if key.is_required else f"`{key.default}`" if key.default else "none"
    taken = "taken" if key.is_live else "restart"
    cells = [f"`{key.name}`", key.kind, default, key.allowed, taken, f"`{key.line}`", key.meaning]
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _key(name: str, field: FieldInfo) -> Key:
    base, marks = _unwrapped(field.annotation)
    marks = [*marks, *field.metadata]
    form = next((mark for mark in marks if isinstance(mark, Form)), None)
    default = "" if field.is_required() else _written(field.default)
    told = (field.examples or [None])[0]
    choices = [_written(choice) for choice in get_args(base)] if get_origin(base) is Literal else []
    example = (
        _written(told) or default or (choices[0] if choices else _written(form.example if form else "x"))
    )
    return Key(
        name=name,
        kind=_kind(base, form),
        default=default,
        is_required=field.is_required(),
        allowed=" or ".join(f"`{choice}`" for choice in choices) or (form and form.allowed) or _bounds(marks),
        is_live=any(isinstance(mark, Live) for mark in marks),
        example=example,
        meaning=field.description or "",
    )


def _unwrapped(annotation: object) -> tuple[object, list[object]]:
    """What a value is without ``None`` and without what is said beside it; and what is said beside it."""
    if get_origin(annotation) is Annotated:
        inner, *marks = get_args(annotation)
        base, more = _unwrapped(inner)
        inside = [each for mark in marks if isinstance(mark, FieldInfo) for each in mark.metadata]
        return base, [*more, *marks, *inside]
    if get_origin(annotation) in {Union, UnionType}:
        return _unwrapped(next(part for part in get_args(annotation) if part is not type(None)))
    return annotation, []


def _kind(base: object, form: Form | None) -> str:
    if form is not None:
        return form.kind
    if base in {int, bool}:
        return "whole number" if base is int else "yes or no"
    if get_origin(base) is Literal:
        return "one of"
    return "length of time" if base is timedelta else "text"


def _bounds(marks: list[object]) -> str:
    least = next((mark.ge for mark in marks if isinstance(mark, Ge)), None)
    most = next((mark.le for mark in marks if isinstance(mark, Le)), None)
    longest = next((mark.max_length for mark in marks if isinstance(mark, MaxLen)), None)
    if least is not None and most is not None:
        return f"{_bare(least)} to {_bare(most)}"
    if least is not None:
        return f"{_bare(least)} or more"
    if most is not None:
        return f"{_bare(most)} or less"
    return "" if longest is None else f"at most {longest} characters"


def _bare(value: object) -> str:
    return duration_text(value) if isinstance(value, timedelta) else str(value)


def _written(value: object) -> str:
    """A value as it would be written; nothing for none."""
    if value is None:
        return ""
    if isinstance(value, timedelta):
        return f'"{duration_text(value)}"'
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int) else f'"{value}"'
