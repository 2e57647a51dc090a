"""`%load_ext penstock.magic`: SQL cells (`%%penstock`) in IPython and Jupyter. docs/notebooks.md shows how."""

from __future__ import annotations

from typing import Any


def load_ipython_extension(ipython: Any) -> None:
    """Offer `%%penstock`; IPython calls this."""
    from penstock.sql.notebook.extension import register

    register(ipython)


def unload_ipython_extension(ipython: Any) -> None:
    """Remove `%%penstock`; IPython calls this."""
    from penstock.sql.notebook.extension import unregister

    unregister(ipython)
