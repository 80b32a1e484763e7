"""HTML and SVG as elements of the standard library's tree, which escapes whatever text it is given."""

from __future__ import annotations

from xml.etree.ElementTree import Element, tostring

Child = Element | str


def element(tag: str, *children: Child, **attributes: str | float) -> Element:
    """`class_` and `stroke_width` become `class` and `stroke-width`; numbers are written as short as they are."""
    made = Element(
        tag,
        {
            name.rstrip("_").replace("_", "-"): value if isinstance(value, str) else short(value)
            for name, value in attributes.items()
        },
    )
    last: Element | None = None
    for child in children:
        if not isinstance(child, str):
            made.append(child)
            last = child
        elif last is None:
            made.text = (made.text or "") + child
        else:
            last.tail = (last.tail or "") + child
    return made


def markup(tree: Element) -> str:
    return tostring(tree, encoding="unicode", method="html")


def short(number: float) -> str:
    """At most six digits, no trailing zeros."""
    return f"{number:.6g}"
