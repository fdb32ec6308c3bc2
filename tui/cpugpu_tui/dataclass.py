"""A `dataclass` whose methods are compiled when they are first used.

The standard one compiles up to six methods for each class at import: 60 ms of the app's 280 to the first frame, for 155
classes of which a third is used by then.
"""

from __future__ import annotations

import dataclasses

from cpugpu_tui import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from dataclasses import dataclass as dataclass
    from typing import Any
else:

    def dataclass(cls=None, /, *, frozen=False, eq=True, slots=False, kw_only=False):
        """Make a class a dataclass. Parameters and result are those of `dataclasses.dataclass`."""

        def made(cls: type) -> type:
            options = {"frozen": frozen, "eq": eq, "kw_only": kw_only}
            return _with_lazy_methods(cls, options, slots=slots)

        return made if cls is None else made(cls)


_PENDING: dict[tuple[type, str], dict[str, Any]] = {}
"""Class and method that is not compiled yet → options of the class."""


def compile_all() -> None:
    """Compile the methods of all dataclasses made so far, so that none is compiled while something is timed."""
    for cls, name in list(_PENDING):
        _compile(cls, name)


def _with_lazy_methods(cls: type, options: dict[str, Any], *, slots: bool) -> type:
    own, frozen, eq = vars(cls), options["frozen"], options["eq"]
    names = ["__init__", *(name for name in ("__repr__", *(["__eq__"] if eq else [])) if name not in own)]
    has_hash = own.get("__hash__") is not None
    made: type = dataclasses.dataclass(init=False, repr=False, eq=False, slots=slots, kw_only=options["kw_only"])(cls)
    if frozen:
        made.__setattr__, made.__delattr__ = _refuse_to_set, _refuse_to_delete  # type: ignore[assignment]
    if eq and not has_hash and frozen:
        names.append("__hash__")
    elif eq and not has_hash:
        made.__hash__ = None  # type: ignore[assignment]
    for name in names:
        setattr(made, name, _first_call(made, name))
        _PENDING[made, name] = options
    return made


def _first_call(cls: type, name: str) -> Callable[..., Any]:
    """Return a method that replaces itself by the compiled one."""

    def first_call(self: object, *args: Any, **named: Any) -> Any:
        _compile(cls, name)
        return getattr(cls, name)(self, *args, **named)

    return first_call


def _compile(cls: type, name: str) -> None:
    options = _PENDING.get((cls, name))
    if options is not None:  # no other thread has compiled it meanwhile
        setattr(cls, name, _compiled(cls, name, options))
        _PENDING.pop((cls, name), None)


def _compiled(cls: type, name: str, options: dict[str, Any]) -> Any:
    """Return this method as the standard `dataclass` makes it for a class with the same fields."""
    namespace = {"__module__": cls.__module__, "__qualname__": cls.__qualname__}
    if hasattr(cls, "__post_init__"):
        namespace["__post_init__"] = cls.__post_init__
    each = [(field.name, field.type, field) for field in dataclasses.fields(cls)]
    wanted = {
        **options, "init": name == "__init__", "repr": name == "__repr__", "eq": name in ("__eq__", "__hash__"),
    }  # fmt: skip
    return vars(dataclasses.make_dataclass(cls.__name__, each, namespace=namespace, **wanted))[name]


def _refuse_to_set(self: object, name: str, value: object) -> None:
    del self, value
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_to_delete(self: object, name: str) -> None:
    del self
    raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")
