"""Words in an icon's name: the candidates for labels, and the family of the icon."""

from __future__ import annotations


def _table(text: str) -> frozenset[str]:
    return frozenset(text.split())


_STYLES = _table(
    """
    bold broken dark dashed dotted duo duotone fill filled flat light line linear lined negative outline outlined
    regular round rounded sharp skin solid stroke thin twotone
    """
)
"""Styles that are seen in a picture, weights and tones of skin."""

_MARKS = _table(
    """
    alt background baseline bg bx bxl bxs color colored expressive extrabold heavy icon icons ios large logo lt
    ltr md medium micro mini minimalistic monochrome multicolor normal o original plain print remix rtl semibold simple
    small tone tones variant wordmark
    """
) | {"colour"}  # codespell:ignore
"""Sizes, directions of writing, and marks of single sets: never labels."""

_NUMBERS = _table("zero one two three four five six seven eight nine ten")
_FILLERS = _table("a an and at by for from in is no not of on or the to with")
_SYNONYMS = {
    "arrow": "arrows",
    "bag": "bags",
    "battery": "batteries",
    "book": "books",
    "box": "boxes package parcel",
    "calendar": "calendars",
    "camera": "cameras",
    "car": "cars automobile vehicle",
    "card": "cards",
    "chart": "charts graph graphs",
    "chat": "bubble bubbles chats comment comments message messages speech",
    "check": "checked checkmark tick",
    "chevron": "angle caret carets chevrons",
    "circle": "circled circles",
    "clock": "alarm clocks time timer watch",
    "close": "cancel cross dismiss times xmark",
    "cloud": "clouds cloudy",
    "duotone": "duo twotone",
    "edit": "pen pencil",
    "eye": "eyes view visibility",
    "face": "emoji emoticon faces smile smiley",
    "file": "doc document documents files page pages paper",
    "fill": "filled solid",
    "flag": "flags",
    "folder": "folders",
    "globe": "earth world",
    "hand": "hands",
    "heart": "hearts love",
    "home": "house",
    "image": "gallery images photo photos picture pictures",
    "key": "keys",
    "line": "linear lined stroke",
    "link": "chain links",
    "list": "lists",
    "location": "marker pin place",
    "lock": "locked padlock",
    "mail": "email envelope mails",
    "man": "boy male men",
    "microphone": "mic microphones",
    "minus": "subtract",
    "money": "cash coin coins currency dollar",
    "off": "disabled slash",
    "outline": "outlined",
    "person": "account avatar human people persons profile user users",
    "phone": "call cell cellphone mobile phones smartphone telephone",
    "plus": "add",
    "rounded": "round",
    "search": "magnifier magnify magnifying zoom",
    "settings": "cog cogs gear gears preferences setting",
    "shield": "shields",
    "shopping": "basket cart",
    "square": "squares",
    "star": "stars",
    "table": "tables",
    "text": "texts",
    "trash": "bin delete garbage",
    "video": "film movie videos",
    "volume": "audio sound speaker",
    "warning": "alert caution exclamation",
    "woman": "female girl women",
}
_WORD_OF = {synonym: word for word, synonyms in _SYNONYMS.items() for synonym in synonyms.split()}


def label_words(name: str, *, styles: bool = True) -> frozenset[str]:
    """Returns a name's candidate labels, synonyms merged: person, circle, fill of `user-circle-24-filled`.

    Args:
        name: of an icon in its set.
        styles: whether words for the style of the drawing count, or those alone for what it shows.
    """
    parts = [
        part
        for part in name.lower().split("-")
        if _may_be_label(part) and (styles or part not in _STYLES)
    ]
    return frozenset(_WORD_OF.get(part, part) for part in parts)


def family_of(icon_set: str, name: str) -> str:
    """Returns the family: the name of an icon in all styles and sizes; names that differ in numbers are sizes.

    So `fluent:person-24-filled` and `fluent:person-16-regular` are the family `fluent:person`, and the dice
    `mdi:dice-1` to `mdi:dice-6` are the family `mdi:dice`. That merges more than it has to, which is the safe side: a
    family is the unit of privacy.
    """
    parts = [part for part in name.lower().split("-") if not _is_style(part)]
    return f"{icon_set}:{'-'.join(parts) or name}"


def _is_style(part: str) -> bool:
    return part in _STYLES or part in _MARKS or _is_size(part)


def _is_size(part: str) -> bool:
    return not part or part[0].isdigit()


def _may_be_label(part: str) -> bool:
    return len(part) > 1 and not _is_size(part) and part not in _MARKS | _NUMBERS | _FILLERS
