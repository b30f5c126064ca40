"""Every key of the configuration, as people are told of it."""

from datetime import timedelta
from typing import get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from edgeagent.config import Config
from edgeagent.contracts.scalars import duration_text


def all_keys() -> list[tuple[str, str, str]]:
    """Every key there is: its name, its default as it would be written, and what it means."""
    return _keys_of(Config, "")


def _keys_of(section: type[BaseModel], prefix: str) -> list[tuple[str, str, str]]:
    found: list[tuple[str, str, str]] = []
    for name, field in section.model_fields.items():
        inner = [each for each in _models(field.annotation) if issubclass(each, BaseModel)]
        if inner:
            found += _keys_of(inner[0], f"{prefix}{name}.")
        else:
            found.append((f"{prefix}{name}", _default_text(field), field.description or ""))
    return found


def _models(annotation: object) -> list[type]:
    """The classes in an annotation such as ``TlsSection | None``."""
    parts = get_args(annotation) or (annotation,)
    return [part for part in parts if isinstance(part, type)]


def _default_text(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    default = field.default
    if default is None:
        return "none"
    if isinstance(default, timedelta):
        return f'`"{duration_text(default)}"`'
    return f"`{default}`" if isinstance(default, int) else f'`"{default}"`'
