"""The cell magic `%%penstock` of an IPython shell, and the session that it runs in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.catalog.errors import ConfigError, PenstockError
from penstock.sql.errors.render import ErrorFormat, show_error
from penstock.sql.notebook.options import USAGE, CellOptions, read_cell_options
from penstock.sql.notebook.screen import screen_of
from penstock.sql.notebook.views import Note

if TYPE_CHECKING:
    from penstock.sql.session.session import Session


MAGIC = "penstock"
SESSION = "session"
"""The variable that a cell looks for first, and that holds the session which a cell has opened."""


def register(shell: Any) -> None:
    """Offer `%%penstock` in a shell."""

    def magic(line: str, cell: str) -> Any:
        return _run(line, cell, shell)

    magic.__doc__ = f"Run SQL statements of Penstock, each ended by `;`.\n\n{USAGE}"
    shell.register_magic_function(magic, magic_kind="cell", magic_name=MAGIC)


def unregister(shell: Any) -> None:
    """Remove `%%penstock`; sessions and jobs stay."""
    shell.magics_manager.magics["cell"].pop(MAGIC, None)


def _run(line: str, cell: str, shell: Any) -> Any:
    screen = screen_of(shell)
    try:
        options = read_cell_options(line)
        session = _session(options, shell.user_ns)
    except PenstockError as error:
        screen(Note(text=show_error(error, ErrorFormat.FULL), is_error=True))
        return None
    from penstock.sql.notebook.cell import run_cell

    result = run_cell(cell, session, options, screen)
    if options.out is not None:
        shell.user_ns[options.out] = result
    return None


def _session(options: CellOptions, names: dict[str, Any]) -> Session:
    """Find the session among the user's variables, or connect. Raises InputError."""
    from penstock.sql.session.session import Session, connect

    known = {id(value): value for value in names.values() if isinstance(value, Session)}
    named = names.get(SESSION)
    if isinstance(named, Session):
        known = {id(named): named}
    if len(known) > 1:
        raise ConfigError(
            "several variables hold a session",
            hint=f"name the one for %%penstock '{SESSION}'",
        )
    if not known:
        spark = names.get("spark")
        is_spark = hasattr(spark, "createDataFrame")
        opened = connect(spark if is_spark else None, options.catalog)
        names[SESSION] = opened
        return opened
    session: Session = next(iter(known.values()))
    if options.catalog is not None and options.catalog != session.catalog_url:
        raise ConfigError(
            f"--catalog {options.catalog}: a session is open over another catalog",
            hint="stop it and delete its variable, or leave the option out",
        )
    return session
