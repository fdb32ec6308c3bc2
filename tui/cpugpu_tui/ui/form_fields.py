"""The fields of a workload's parameters: from a request to texts, and from typed texts to a request. No widget."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from cpugpu_tui.config.parsing import FieldError
from cpugpu_tui.session.planning import PlanRequest, find_preset
from cpugpu_tui.ui.estimate_lines import plan_of

DEVICES = "devices"
"""The field that is chosen from, not typed."""

FIELDS: dict[str, tuple[str, str]] = {
    "sizes": ("sizes", "like 16,32,64 or 1:10000:50 (start:stop:step)"),
    "dtype": ("dtype", "float32, tf32, float64, bfloat16 or float16"),
    "variant": ("variant", ""),
    "threads": ("CPU threads", "all, or numbers separated by commas"),
    DEVICES: ("devices", "space chooses"),
    "repeat": ("repeats", "runs of one series"),
    "rounds": ("rounds", "per case; empty: 8 to 40, until the interval is narrow"),
    "max_seconds": ("at most", "seconds for the whole run"),
    "scale": ("scale", "full, or small: seconds instead of minutes"),
}
"""Field of `PlanRequest` → label and hint."""


def hints(request: PlanRequest) -> dict[str, str]:
    """Return what to write into each field; of the variant the names there are."""
    known = request.own.infos()
    parts = [part for name in request.names for part in find_preset(name, request.own, known).parts]
    variants = dict.fromkeys(variant for part in parts for variant in known[part.workload].variants)
    return {**{name: hint for name, (_, hint) in FIELDS.items()}, "variant": "one of " + ", ".join(variants)}


def placeholders(request: PlanRequest) -> dict[str, str]:
    """Return what an empty field stands for."""
    plan = plan_of(PlanRequest(request.names, own=request.own))
    sizes = list(dict.fromkeys(str(case.size) for case in plan.cases))
    shown = sizes if len(sizes) <= 8 else [*sizes[:3], "...", sizes[-1]]
    return {
        "sizes": ",".join(shown),
        "dtype": ", ".join(dict.fromkeys(case.dtype for case in plan.cases)),
        "variant": ", ".join(dict.fromkeys(case.variant for case in plan.cases)),
        "threads": ", ".join(dict.fromkeys(str(case.threads or "all") for case in plan.cases)),
        "repeat": "1",
        "rounds": f"{plan.rounds} to {plan.max_rounds}",
        "max_seconds": "no limit",
        "scale": "full",
    }


def texts_of(request: PlanRequest) -> dict[str, str]:
    """Return the fields of a request that are typed, as a person types them."""
    return {
        "sizes": request.sizes or "",
        "dtype": request.dtype or "",
        "variant": request.variant or "",
        "threads": request.threads or "",
        "repeat": str(request.repeat),
        "rounds": str(request.rounds or ""),
        "max_seconds": f"{request.max_seconds:g}" if request.max_seconds else "",
        "scale": request.scale,
    }


def request_from(texts: Mapping[str, str], devices: tuple[str, ...], base: PlanRequest) -> PlanRequest:
    """Return the request that the fields say; what is no count and no time is refused, the rest is for its plan.

    Raises:
        FieldError: a field has a wrong value; `.field` names it.
    """
    typed = {name: text.strip() for name, text in texts.items()}
    return replace(
        base,
        sizes=typed["sizes"] or None,
        dtype=typed["dtype"] or None,
        variant=typed["variant"] or None,
        threads=typed["threads"] or None,
        devices=devices,
        repeat=_whole("repeat", typed["repeat"]) or 1,
        rounds=_whole("rounds", typed["rounds"]),
        max_seconds=_seconds("max_seconds", typed["max_seconds"]),
        scale=typed["scale"] or "full",
    )


def _whole(field: str, text: str) -> int | None:
    if not text:
        return None
    if not (text.isascii() and text.isdigit()) or len(text) > 9:
        raise FieldError(field, f"{text!r} is no count.", "Write a whole number from 1 on.")
    count = int(text)
    if count < 1:
        raise FieldError(field, "0 is no count.", "Write a whole number from 1 on.")
    return count


def _seconds(field: str, text: str) -> float | None:
    if not text:
        return None
    try:
        return float(text)
    except ValueError:
        raise FieldError(field, f"{text!r} is no time.", "Write seconds, like 20 or 1.5.") from None
