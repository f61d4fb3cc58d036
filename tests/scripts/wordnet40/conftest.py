import pytest

LICENCE = ["  1 This software and database is being provided to you  ", "  2 under the following license.  "]
KINDS = {2: ("animal", "an animal"), 3: ("plant", "a plant"), 4: ("tool", "a tool")}
PLACES = ("field", "forest", "garden", "river")


def synset(offset: int, lemma: str, pointers: list[tuple[str, int, str]], gloss: str) -> str:
    listed = " ".join(f"{symbol} {target:08d} {kind} 0000" for symbol, target, kind in pointers)
    return f"{offset:08d} 03 n 02 {lemma} 0 other_{lemma} a {len(pointers):03d} {listed} | {gloss}  "


@pytest.fixture(scope="session")
def dictionary() -> list[str]:
    """A root (1), three kinds under it (2..4) and 48 things (100..147), a third of them of each kind."""
    lines = [*LICENCE, synset(1, "entity", [("~", 2, "n"), ("~", 3, "n")], "that which exists")]
    for kind, (lemma, gloss) in KINDS.items():
        lines.append(synset(kind, lemma, [("@", 1, "n"), ("+", 7, "v")], gloss))
    for number in range(48):
        kind = 2 + number % 3
        gloss = f'{KINDS[kind][1]} of the {PLACES[number % 4]}; thing {number // 3}; "we saw it {number} times"'
        lines.append(synset(100 + number, f"thing{number}", [("@", kind, "n")], gloss))
    return lines
