"""The prose check: each rule finds what it is for, and leaves alone what is right."""

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

CHECK = Path(__file__).parents[2] / "scripts" / "prose" / "check.py"


def loaded() -> ModuleType:
    spec = importlib.util.spec_from_file_location("prose_check", CHECK)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


check = loaded()


def found(tmp_path: Path, text: str, name: str = "page.md") -> list[str]:
    (tmp_path / name).write_text(text, encoding="utf-8")
    return [item.text for item in check.findings(tmp_path / name)]


@pytest.mark.parametrize(
    ("text", "finding"),
    [
        ("\n".join(["word"] * 36) + ".\n", "36 words in a sentence"),
        ("It answers three labels a query.\n", "'labels a query'"),
        ("One needs 2 a teacher.\n", "'2 a teacher'"),
        ("Its noise costs what it costs.\n", "'costs what it costs'"),
        ("Records are salted with what it does not hold.\n", "'what it does not hold'"),
        ("This is of course fast.\n", "'of course'"),
        ("x" * 121 + "\n", "121 columns"),
        ("See [there](missing.md).\n", "missing.md: no such file"),
        ("![a picture](missing.svg)\n", "missing.svg: no such file"),
        ("# Here\n\nSee [there](#elsewhere).\n", "#elsewhere: no such heading"),
        ("# Here\n\nSee [there](page.md#elsewhere).\n", "page.md#elsewhere: no such heading"),
    ],
)
def test_what_the_style_guide_forbids_is_found(tmp_path: Path, text: str, finding: str) -> None:
    texts = found(tmp_path, text)
    assert [finding in each for each in texts] == [True]


@pytest.mark.parametrize(
    "text",
    [
        "\n".join(["word"] * 20) + ".\n" + "\n".join(["Word"] * 20) + ".\n",  # two sentences
        "Let `a b c d e f g h i j k l m n o p q r s t u v w x y z a b c d e f g h i j k` be code.\n",
        "It says how many records a teacher has, under replace-one a teacher's votes.\n",
        "2. A release of 3 labels per query, as 0.5 per label.\n",
        "| " + "word " * 40 + "|\n|---|\n| a |\n",  # tables have no sentences
        "```\n" + "x" * 200 + "\n```\n",
        "# How it works: `x`\n\nSee [above](#how-it-works-x) and [the web](https://example.org/none).\n",
    ],
)
def test_what_is_right_is_left_alone(tmp_path: Path, text: str) -> None:
    assert found(tmp_path, text) == []


LONG = " ".join(["word"] * 36)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("code.py", f'"""{LONG}."""\n'),
        ("code.py", f'def f():\n    """Says it.\n\n    Attributes:\n        it: {LONG}\n    """\n'),
        ("code.py", f'raise ValueError(f"{{name}}: {LONG}")\n'),
        ("code.py", f'require(good, "name", value, "{LONG}")\n'),
        ("settings.yaml", f"# {LONG}.\nkey: value\n"),
    ],
)
def test_long_sentences_of_docstrings_errors_and_help_are_found(tmp_path: Path, name: str, text: str) -> None:
    assert ["in a sentence, 35 at most" in each for each in found(tmp_path, text, name)] == [True]


def test_the_prose_of_a_notebook_is_read_and_its_code_is_not(tmp_path: Path) -> None:
    prose = {"cell_type": "markdown", "source": ["# Head\n", "\n", f"{LONG}.\n", "Two a teacher."]}
    cells = [prose, {"cell_type": "code", "source": [f'print("{LONG}")']}]
    said = found(tmp_path, json.dumps({"cells": cells}), "page.ipynb")
    assert [each.split(",")[0] for each in said] == ["36 words in a sentence"]


@pytest.mark.parametrize(
    "text",
    [
        '"""Short.\n\n' + "    one: word word word word word.\n" * 10 + '    """\n',  # entries are apart
        f'"""Short.\n\n>>> f("{LONG}")\n"""\n',  # an example
        f'text = "{LONG}"\n',  # no docstring and no error
    ],
)
def test_entries_examples_and_data_of_sources_are_left_alone(tmp_path: Path, text: str) -> None:
    assert found(tmp_path, text, "code.py") == []


def test_the_exit_code_says_whether_there_is_something_to_mend(tmp_path: Path, capsys: Any) -> None:
    page = tmp_path / "page.md"
    for word, code in (("a", 1), ("per", 0)):
        page.write_text(f"One needs 2 {word} teacher.\n", encoding="utf-8")
        assert check.main([str(page)]) == code
        assert capsys.readouterr().out.startswith(f"{page}:1: ") == bool(code)
