"""Print the figures of the house rules: `python -m tests.house`, with `--list` what was counted, too."""

from __future__ import annotations

import argparse
from pathlib import Path

from tests.house.figures import Figure, figures
from tests.house.graph import RUNS, layers, package_graph
from tests.house.modules import PENSTOCK, Package


def main(arguments: list[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.house", description=__doc__)
    parser.add_argument(
        "--list", action="store_true", help="print what was counted below each figure"
    )
    parser.add_argument(
        "--package", type=Path, default=PENSTOCK, help="the folder of another package"
    )
    parser.add_argument(
        "--layers", metavar="PACKAGE", help="print the layers of what is below a package instead"
    )
    asked = parser.parse_args(arguments)
    package = Package.read(asked.package.resolve())
    if asked.layers:
        _print_layers(package, asked.layers)
    else:
        _print_figures(figures(package), listed=asked.list)


def _print_layers(package: Package, parent: str) -> None:
    """Print lines for a contract of import-linter; those that import each other stand alone in a line, with colons."""
    for layer in layers(package_graph(package, parent, RUNS)):
        for cycle in layer:
            if len(cycle) > 1:
                print(f'    "{" : ".join(cycle)}",')
        if alone := [nodes[0] for nodes in layer if len(nodes) == 1]:
            print(f'    "{" | ".join(alone)}",')


def _print_figures(rows: list[Figure], *, listed: bool) -> None:
    header = Figure("", "now", "before", "aim")
    widths = [
        max(len(row.name) for row in rows),
        max(len(row.now) for row in rows),
        max(len(row.before) for row in rows),
    ]
    for row in (header, *rows):
        print(
            f"{row.name:<{widths[0]}}  {row.now:>{widths[1]}}  {row.before:>{widths[2]}}  {row.aim}".rstrip()
        )
        if listed:
            for detail in row.details:
                print(f"    {detail}")


if __name__ == "__main__":
    main()
