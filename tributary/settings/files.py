"""Reads settings files: TOML in, a checked and frozen model out, or a one-line error."""

import difflib
import textwrap
import tomllib
from collections.abc import Mapping
from pathlib import Path
from types import NoneType
from typing import Any, TypeVar, get_origin

from annotated_types import Ge, Le, MaxLen, MinLen
from pydantic import BaseModel, ConfigDict, PlainSerializer, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from tributary.settings.errors import CommandError, Exit, invalid_value
from tributary.settings.secrets import HIDDEN, is_secret
from tributary.settings.values import Accepting

M = TypeVar("M", bound="Settings")

BOOLEAN = "true or false"
AS_TEXT = PlainSerializer(str, when_used="unless-none")
"""Of a value that stands as text in a file, or not at all."""


class Settings(BaseModel):
    """The base of every settings model: refuses unknown keys, and is immutable.

    Each is built when it is used first, since that takes a third of a command's start.
    """

    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, validate_default=True, hide_input_in_errors=True, defer_build=True
    )

    @classmethod
    def __pydantic_init_subclass__(cls, **_options: object) -> None:
        for name, field in cls.model_fields.items():
            field.description = field.description or _accepted(name, field)

    @property
    def written(self) -> dict[str, object]:
        """The keys that say something else than when they are left out, as they stand in a file."""
        return self.model_dump(exclude_defaults=True, mode="json")


def described(keys: Mapping[str, FieldInfo], margin: str, prefix: str = "") -> str:
    """What each key of a model (its ``model_fields``) is for, and what it takes, in lines for a command's help."""
    texts = (f"{prefix}{name}: {field.title}. {field.description}" for name, field in keys.items())
    wrapper = textwrap.TextWrapper(118, initial_indent=margin, subsequent_indent=f"{margin}    ")
    return "\n".join(map(wrapper.fill, texts))


def _accepted(name: str, field: FieldInfo) -> str | None:
    """What a key takes by its type alone; None if that does not say."""
    parts: tuple[object, ...] = getattr(field.annotation, "__args__", ())
    kind = parts[0] if parts[1:] == (NoneType,) else field.annotation
    if found := [each.accepted for each in field.metadata if isinstance(each, Accepting)]:
        return found[0]
    if isinstance(kind, type) and issubclass(kind, Settings):
        return f"a table [{name}]"
    inside = getattr(parts[0], "__metadata__", ()) if get_origin(field.annotation) is list else ()
    if found := [each.accepted for each in inside if isinstance(each, Accepting)]:
        return _listed(found[0], field)
    bounds = [
        *(each.ge for each in field.metadata if isinstance(each, Ge)),
        *(each.le for each in field.metadata if isinstance(each, Le)),
    ]
    if kind is int and len(bounds) == 2:
        return f"a whole number from {bounds[0]} to {bounds[1]}"
    return getattr(kind, "ACCEPTED", BOOLEAN if kind is bool else None)


def _listed(each: str, field: FieldInfo) -> str:
    """What a list takes of which one is ``each``."""
    least = next((bound.min_length for bound in field.metadata if isinstance(bound, MinLen)), "up")
    most = [bound.max_length for bound in field.metadata if isinstance(bound, MaxLen)]
    return f"a list of {least} to {most[0]}, each {each}" if most else f"a list of {each}"


def load(path: Path, model: type[M]) -> M:
    """Read ``path`` as a ``model``.

    Raises CommandError: exit 66 if the file cannot be read, exit 64 if it is not TOML or not such a model.
    """
    return check(read(path), model, where=str(path))


def drop_ins(path: Path) -> Path:
    """The folder of a file's drop-ins, read in the order of their names: throttler.d of throttler.toml."""
    return path.with_suffix(".d")


def read(path: Path) -> dict[str, Any]:
    """Read ``path`` as TOML, unchecked; raises CommandError with exit 66 or 64."""
    return parsed(text_of(path), str(path))


def text_of(path: Path) -> str:
    """What the file says; raises CommandError with exit 66 if it cannot be read, or is not in UTF-8."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(Exit.NO_INPUT, f"{path}: cannot be read: {error}") from error


def parsed(text: str, where: str) -> dict[str, Any]:
    """Read ``text``, called ``where`` in messages, as TOML, unchecked; raises CommandError with exit 64."""
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # the parser's own, and for a number or a nesting beyond bounds
        raise CommandError(Exit.USAGE, f"{where}: not valid TOML: {error}") from error


def check(document: object, model: type[M], where: str) -> M:
    """Check an already parsed ``document``, called ``where`` in messages; raises CommandError with exit 64."""
    try:
        return model.model_validate(document)
    except ValidationError as error:
        raise explained(error.errors()[0], model, where) from error


def explained(error: ErrorDetails, model: type[BaseModel], where: str) -> CommandError:
    """The one-line error for a pydantic ``error`` in a ``model``; ``where`` is the file's name."""
    location = error["loc"]
    if error["type"] == "extra_forbidden":
        accepted = "one of the keys " + ", ".join(sorted(_model_at(model, location[:-1]).model_fields))
    elif error["type"] == "value_error":
        accepted = str(error["ctx"]["error"])
    else:
        accepted = _description_at(model, location) or error["msg"]
    value = "(missing)" if error["type"] == "missing" else _known(error["input"], location, model)
    return invalid_value(where, _dotted(location), value, accepted)


def _known(value: object, location: tuple[int | str, ...], model: type[BaseModel]) -> object:
    """``value`` without the values of unknown keys that may be misspelt names of secrets."""
    if location and _may_mean_a_secret(location[-1], value, _model_at(model, location[:-1])):
        return HIDDEN
    return _of_keys(value, _model_at(model, location))


def _of_keys(value: object, model: type[BaseModel] | None) -> object:
    if isinstance(value, list):
        return [_of_keys(each, model) for each in value]
    if not isinstance(value, Mapping) or model is None:
        return value
    fields = model.model_fields
    inside = {name: _model_inside(field.annotation) for name, field in fields.items()}
    return {
        key: HIDDEN if _may_mean_a_secret(key, each, model) else _of_keys(each, inside.get(str(key), model))
        for key, each in value.items()
    }


def _may_mean_a_secret(key: object, value: object, model: type[BaseModel]) -> bool:
    """Whether ``key`` is unknown to the ``model``, which has a secret, and resembles no other of its keys."""
    fields = model.model_fields
    if not isinstance(key, str) or key in fields or not any(map(is_secret, fields)):
        return False
    meant = difflib.get_close_matches(key.lower(), fields, n=1)
    return is_secret(meant[0]) if meant else isinstance(value, str)


def _dotted(location: tuple[int | str, ...]) -> str:
    """('rules', 0, 'rate') in TOML's notation: ``rules[0].rate``."""
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in location)
    return text.removeprefix(".") or "(the whole file)"


def _model_at(model: type[BaseModel], location: tuple[int | str, ...]) -> type[BaseModel]:
    """The model that holds the keys at ``location``, through lists and tables."""
    here = model
    for step in location:
        field = here.model_fields.get(step) if isinstance(step, str) else None
        if field is not None:
            here = _model_inside(field.annotation) or here
    return here


def _model_inside(annotation: object) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next(filter(None, map(_model_inside, getattr(annotation, "__args__", ()))), None)


def _description_at(model: type[BaseModel], location: tuple[int | str, ...]) -> str | None:
    for index, step in reversed(list(enumerate(location))):
        field = _model_at(model, location[:index]).model_fields.get(str(step))
        if field is not None:
            return field.description
    return None
