"""Every public name is in the reference, and its docstring says what its parameters are."""

import dataclasses
import importlib.util
import inspect
import re
import zlib
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

DOCS = Path(__file__).parents[2] / "docs"
CORE = ("pate.accounting", "pate.mechanisms", "pate.aggregators", "pate.votes", "pate.verification", "pate.classifier")
SENTENCE = re.compile(r"[A-Z`0-9].*[.:?]$", re.MULTILINE)


def of_the_build(name: str) -> ModuleType:
    """A module that the build of the documentation uses, from its file."""
    spec = importlib.util.spec_from_file_location(name, DOCS / "_build" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


hook, docstrings = of_the_build("public_names"), of_the_build("docstrings")


def public_objects(*packages: str) -> Iterator[tuple[str, Any]]:
    """Classes and functions that some package exports, once each."""
    seen = set()
    for full in hook.public_names():
        module, _, name = full.rpartition(".")
        thing = inspect.unwrap(getattr(importlib.import_module(module), name))
        wanted = not packages or module.startswith(packages)
        if wanted and (inspect.isclass(thing) or inspect.isfunction(thing)) and id(thing) not in seen:
            seen.add(id(thing))
            yield full, thing


def parameters(thing: Any) -> list[str]:
    """What its docstring must explain: arguments, the fields of a dataclass that are its own, or nothing."""
    if dataclasses.is_dataclass(thing):
        own = vars(thing).get("__annotations__", {})
        return [field.name for field in dataclasses.fields(thing) if field.init and field.name in own]
    if inspect.isclass(thing):
        if issubclass(thing, (Enum, Exception)) or inspect.isabstract(thing) or "__init__" not in vars(thing):
            return []
        thing = thing.__init__
    named = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    found = [each.name for each in inspect.signature(thing).parameters.values() if each.kind not in named]
    return [name for name in found if name != "self" and not name.startswith("_")]


def explained(docstring: str) -> str:
    """The sections that list parameters, or fields of scikit-learn's estimators."""
    return "".join(re.findall(r"^(?:Args|Attributes):\n(?:(?:[ ].*)?\n)*", docstring + "\n", re.MULTILINE))


def missing(thing: Any) -> list[str]:
    text = inspect.cleandoc(thing.__doc__)
    if dataclasses.is_dataclass(thing):
        lines = inspect.getsource(thing).splitlines()
        fields = {found[1]: number for number, line in enumerate(lines) if (found := re.match(r"    (\w+): ", line))}
        text = docstrings.with_fields(text, lines, fields)
    section = explained(text)
    listed = {
        word for line in re.findall(r"^ +([\w, ]+)(?: \(.*\))?:", section, re.MULTILINE) for word in line.split(", ")
    }
    return [name for name in parameters(thing) if name not in listed]


def test_every_public_name_is_on_a_page_of_the_reference() -> None:
    """The build looks again, at what was rendered."""
    pages = "".join(page.read_text(encoding="utf-8") for page in (DOCS / "api").glob("*.md"))
    shown = set(re.findall(r"^::: ([\w.]+)$", pages, re.MULTILINE))
    packages = {full.rpartition(".")[0] for full in hook.public_names()} - {"pate"}
    assert sorted(packages - shown) == []


def test_the_hook_fails_for_a_name_on_no_page(tmp_path: Path) -> None:
    from mkdocs.exceptions import PluginError

    names = hook.public_names()
    assert hook.undocumented(set(names)) == []
    assert hook.undocumented(set(names.values())) == []  # under the modules that define them
    both = {"pate.accounting.calibrate", names["pate.accounting.calibrate"]}
    lines = [f"{name} py:function 1 api/# -" for name in (*names, *names.values()) if name not in both]
    inventory = b"# a\n# b\n# c\n# d\n" + zlib.compress("\n".join(lines).encode())
    (tmp_path / "objects.inv").write_bytes(inventory)
    with pytest.raises(PluginError, match=r"has no entry for pate\.accounting\.calibrate$"):
        hook.on_post_build({"site_dir": str(tmp_path)})


def test_examples_are_fenced_up_to_the_next_empty_line() -> None:
    text = "What.\n\n>>> f(1)\n[0.98, 0.93]\n>>> g\n\nSource: a book."
    assert docstrings.fenced(text) == "What.\n\n```pycon\n>>> f(1)\n[0.98, 0.93]\n>>> g\n```\n\nSource: a book."
    assert docstrings.fenced("a >>> b") == "a >>> b"


def test_comments_at_fields_are_their_section() -> None:
    lines = ["class A:", "    # `[n]`, long", "    # and more", "    a: int", "    b: int = 3  # short", "    c: int"]
    numbers, section = {"a": 3, "b": 4, "c": 5}, "Attributes:\n    a: `[n]`, long and more\n    b: short\n"
    assert docstrings.with_fields("What.", lines, numbers) == f"What.\n\n{section}"
    known = docstrings.with_fields("What.\n\nAttributes:\n    d: of its parent.\n", lines, numbers)
    assert known == f"What.\n\n{section}    d: of its parent.\n"
    assert docstrings.with_fields("What.", lines, {"c": 5}) == "What."


def test_every_public_name_has_a_docstring_of_its_own() -> None:
    """Not its parent's, nor the signature that dataclasses write; and its first line is a sentence."""
    poor = []
    for name, thing in public_objects():
        own = vars(thing).get("__doc__") if inspect.isclass(thing) else thing.__doc__
        if not own or own.startswith(f"{thing.__name__}(") or not SENTENCE.match(inspect.cleandoc(own)):
            poor.append(name)
    assert poor == []


def test_public_names_of_the_core_explain_their_parameters_and_methods() -> None:
    """A method has a docstring, if only a parent's; a property says what it is by its name."""
    found = {name: missing(thing) for name, thing in public_objects(*CORE)}
    for name, thing in public_objects(*CORE):
        members = vars(thing).items() if inspect.isclass(thing) else ()
        kinds = (classmethod, staticmethod)
        methods = [key for key, each in members if inspect.isfunction(each) or isinstance(each, kinds)]
        found[name] += [key for key in methods if key[0] != "_" and not inspect.getdoc(getattr(thing, key))]
    assert len(found) > 100
    assert {name: names for name, names in found.items() if names} == {}


def test_every_path_may_be_text() -> None:
    """What the bodies do with text is for mypy; `Bench` and `VoteStore` are made by this package alone."""
    only_paths = []
    for name, thing in public_objects():
        own = {"": thing} | (dict(vars(thing)) if inspect.isclass(thing) else {})
        for member, each in own.items():
            function = getattr(each, "__func__", each)  # of class methods and static ones
            if inspect.isfunction(function) and (member == "__init__" or not member.startswith("_")):
                taken = {key: said for key, said in function.__annotations__.items() if key != "return"}
                only_paths += [f"{name}.{member}.{key}" for key, said in taken.items() if is_path_alone(str(said))]
    made = [name for name in only_paths if name.startswith(("pate.comparison.Bench.", "pate.votes.VoteStore."))]
    assert sorted(set(only_paths) - set(made)) == []
    assert len(made) == 2  # the check can fail


def is_path_alone(said: str) -> bool:
    return "Path" in said and "str" not in said


def test_the_check_of_parameters_can_fail() -> None:
    def documented(first: int, *, second: int) -> None:
        """Does.

        Args:
            first: what comes first.
        """

    assert missing(documented) == ["second"]
