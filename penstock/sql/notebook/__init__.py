"""Penstock in a notebook: `%load_ext penstock.magic`, then cells that begin with `%%penstock`.

options.py (the cell's first line) -> cell.py (checks and runs its statements) -> live.py (an unbounded query) ->
views.py (what is shown) -> screen.py (where, as HTML or text).
"""
