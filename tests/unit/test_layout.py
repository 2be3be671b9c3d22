from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROOTS = ("agents", "broker", "contracts")


def folders_of_modules(root: str) -> set[Path]:
    return {path.parent.relative_to(ROOT) for path in (ROOT / root).rglob("*.py")}


@pytest.mark.parametrize("root", ROOTS)
def test_the_namespace_and_the_folder_above_it_have_no_init(root: str) -> None:
    """`passdown` is one namespace over three roots, and `import agents` goes on meaning somebody else's package."""
    assert not (ROOT / root / "__init__.py").exists()
    assert not (ROOT / root / "passdown" / "__init__.py").exists()


@pytest.mark.parametrize("root", ROOTS)
def test_each_folder_below_a_package_has_an_init(root: str) -> None:
    """import-linter does not look into one that has none: what is in it would escape the import rules."""
    package = Path(root, "passdown", root)
    inside = {folder for folder in folders_of_modules(root) if package in folder.parents}
    assert [str(folder) for folder in sorted(inside) if not (ROOT / folder / "__init__.py").exists()] == []


@pytest.mark.parametrize("root", ROOTS)
def test_each_package_says_that_it_is_typed(root: str) -> None:
    assert (ROOT / root / "passdown" / root / "py.typed").exists()
