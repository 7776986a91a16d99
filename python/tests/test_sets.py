"""Sets go on in the order that they would have had."""

import random
from typing import Any

import pytest

from holdfast_ryu import sets


def element(chance: random.Random, many: int) -> Any:
    """Numbers that collide, and strings."""
    number = chance.randrange(many)
    return chance.choice([number, number * 64, -number, str(number), (number, "pair"), float(number) + 0.5])


def change(elements: set[Any], chance: random.Random, many: int) -> Any:
    match chance.randrange(12):
        case 0:
            return elements.pop() if elements else None
        case 1 | 2 | 3 | 4:
            elements.discard(element(chance, many))
        case 5:
            elements.difference_update({element(chance, many) for _ in range(many // 4)})
        case 6:
            elements.update([element(chance, many) for _ in range(chance.randrange(many))])
        case _:
            elements.add(element(chance, many))
    return None


@pytest.mark.parametrize("many", [3, 10, 100, 3_000])
def test_a_copy_evolves_as_its_original(many: int) -> None:
    chance = random.Random(many)
    for _ in range(300 if many < 1_000 else 10):
        original: set[Any] = set()
        for _ in range(chance.randrange(60)):
            change(original, chance, many)
        copy: set[Any] = {"something", "else"}
        sets.fill(copy, sets.layout(original))
        assert list(copy) == list(original) and sets.layout(copy) == sets.layout(original)
        seed = chance.random()
        one, other = random.Random(seed), random.Random(seed)
        for _ in range(60):
            assert change(original, one, many) == change(copy, other, many)
            assert list(copy) == list(original)
        assert copy == original and all(thing in copy for thing in original)


def test_frozen() -> None:
    chance = random.Random(1)
    for size in [1, 4, 5, 9, 100, 5_000]:
        built = {element(chance, 10 * size) for _ in range(size)}
        for original in (frozenset(built), frozenset(list(built))):
            copy = sets.frozen(sets.layout(original))
            assert list(copy) == list(original) and copy == original and hash(copy) == hash(original)
            assert copy | {"more"} == original | {"more"} and type(copy) is frozenset


def test_elements_are_owned_by_the_copy() -> None:
    class Thing:
        ended = 0

        def __del__(self) -> None:
            Thing.ended += 1

    for size in (3, 300):
        Thing.ended = 0
        original = {Thing() for _ in range(size)}
        copy: set[Any] = set()
        sets.fill(copy, sets.layout(original))
        original.clear()
        assert Thing.ended == 0 and len(list(copy)) == size
        copy.clear()
        assert Thing.ended == size


def test_damaged_layouts_are_refused() -> None:
    for size, slot in ((7, 0), (12, 0), (8, 8), (16, 17), (0, 0), (8, -1)):
        with pytest.raises(ValueError, match="a set with a table of"):
            sets.fill(set(), sets.Layout(size, 0, [(slot, "x")], []))
    with pytest.raises(TypeError):
        sets.fill(set(), sets.Layout(8, 0, [(0, [])], []))
