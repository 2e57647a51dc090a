"""Secrets as encrypted rows of the catalog's database. Values leave it only sealed."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from sqlalchemy import Connection, Select, delete, insert, select, update

from penstock.catalog.errors import ConfigError
from penstock.catalog.migrations import SECRETS, SECRETS_SINCE
from penstock.catalog.secrets.crypto import (
    KEY_FILE,
    KEY_FILE_VARIABLE,
    KEY_VARIABLE,
    KeyLocation,
    KeyRing,
    SealedSecret,
    check_value,
    find_keys,
    keep_key_file,
    key_location,
    make_key_file,
    new_key,
    note_key_file,
    put_key_first,
)
from penstock.catalog.secrets.store import Rotation, SecretInfo, check_name, taken, unknown
from penstock.catalog.store.database import Database, now_ms


class SqlSecrets:
    """The secrets of a catalog in a database (`SecretStore`).

    `key_file` has the keys where the environment names none; None is the file beside a local catalog, which is made
    with the first secret.
    """

    def __init__(self, database: Database, key_file: Path | None = None) -> None:
        self._database = database
        self._key_file = key_file
        own = key_file or (None if database.file is None else database.file.with_name(KEY_FILE))
        if own is not None:
            keep_key_file(own)

    def listed(self) -> list[SecretInfo]:
        """List the secrets, sorted by name."""
        with self._database.reading(since=SECRETS_SINCE) as connection:
            if connection is None:
                return []
            rows = connection.execute(select(SECRETS).order_by(SECRETS.c.secret_name)).all()
        return [
            SecretInfo(
                name=row.secret_name,
                key_id=row.key_id,
                created_ms=row.created_ms,
                changed_ms=row.changed_ms,
            )
            for row in rows
        ]

    def create(self, name: str, value: str, *, if_not_exists: bool = False) -> None:
        """Add a secret. Raises ObjectExistsError, DefinitionError."""
        check_name(name)
        check_value(name, value)

        def add(connection: Connection) -> None:
            if connection.scalar(_named(name)) is not None:
                if not if_not_exists:
                    raise taken(name)
                return
            keys = self._keys(_key_ids(connection))
            now = now_ms(connection)
            row = {
                "secret_name": name,
                "value": keys.encrypt(value, name=name),
                "key_id": keys.current_id,
            }
            connection.execute(insert(SECRETS).values(**row, created_ms=now, changed_ms=now))

        self._database.change(add)

    def alter(self, name: str, value: str) -> None:
        """Change the value of a secret. Raises UnknownObjectError, DefinitionError."""
        check_value(name, value)

        def change(connection: Connection) -> None:
            if connection.scalar(_named(name)) is None:
                raise unknown(name, _names(connection))
            keys = self._keys(_key_ids(connection))
            row = {"value": keys.encrypt(value, name=name), "key_id": keys.current_id}
            found = update(SECRETS).where(SECRETS.c.secret_name == name)
            connection.execute(found.values(**row, changed_ms=now_ms(connection)))

        self._database.change(change)

    def drop(self, name: str, *, if_exists: bool = False) -> None:
        """Remove a secret; tables that refer to it stay. Raises UnknownObjectError."""
        if if_exists and all(info.name != name for info in self.listed()):
            return  # a store is not made for nothing

        def remove(connection: Connection) -> None:
            known = _names(connection)
            gone = connection.execute(delete(SECRETS).where(SECRETS.c.secret_name == name))
            if gone.rowcount == 0 and not if_exists:
                raise unknown(name, known)

        self._database.change(remove)

    def sealed(self, name: str) -> SealedSecret:
        """Return a secret, encrypted for a process that connects. Raises UnknownObjectError.

        Opens it once: a wrong key shows here, and this process knows from now on what it must not show.
        """
        with self._database.reading(since=SECRETS_SINCE) as connection:
            if connection is None:
                raise unknown(name, ())
            row = connection.execute(
                select(SECRETS).where(SECRETS.c.secret_name == name)
            ).one_or_none()
            if row is None:
                raise unknown(name, _names(connection))
        sealed = self._sealed(name, row.value, row.key_id)
        find_keys(self._location).decrypt(sealed)
        return sealed

    def seal(self, name: str, value: str) -> SealedSecret:
        """Return a value in the same form without keeping it; makes the key where there is none yet."""
        keys = self._keys({info.key_id for info in self.listed()})
        return self._sealed(name, keys.encrypt(value, name=name), keys.current_id)

    def rotate(self) -> Rotation:
        """Encrypt all secrets with a new key, put in front of the others in the key file.

        Keys of the variable are the user's to change: then those of its first one are what secrets are encrypted with.
        """

        def renew(connection: Connection) -> Rotation:
            location = self._location
            made = location is not None and location.file is not None
            if location is not None and location.file is not None:
                find_keys(location)  # what is no file of keys is left alone
                # before the rows: keys that nothing is encrypted with do no harm, lost ones would
                put_key_first(location.file, new_key())
            keys = find_keys(location)
            rows = connection.execute(select(SECRETS).with_for_update()).all()
            for row in rows:
                old = SealedSecret(name=row.secret_name, token=row.value, key_id=row.key_id)
                changed = {
                    "value": keys.encrypt(keys.decrypt(old), name=old.name),
                    "key_id": keys.current_id,
                }
                found = update(SECRETS).where(SECRETS.c.secret_name == row.secret_name)
                connection.execute(found.values(**changed))
            return Rotation(secrets=len(rows), key_id=keys.current_id, new_key=made)

        with self._database.writing(queued=True) as connection:
            return renew(connection)

    @property
    def _location(self) -> KeyLocation | None:
        if self._key_file is not None:
            return key_location(self._key_file)
        catalog = self._database.file
        return key_location(None if catalog is None else catalog.with_name(KEY_FILE), own=True)

    def _sealed(self, name: str, token: str, key: str) -> SealedSecret:
        file = self._location.file if self._location is not None else None
        path = None if file is None else str(file)
        return SealedSecret(name=name, token=token, key_id=key, key_file=path)

    def _keys(self, known_ids: Collection[str]) -> KeyRing:
        """Find the keys; the catalog's own file is made for its first secret. Raises ConfigError.

        `known_ids` are the keys of the secrets that there are.
        """
        location = self._location
        if (
            location is None
            or location.file is None
            or location.file.exists()
            or not location.may_be_made
        ):
            found = find_keys(location)
            if self._key_file is not None and self._database.file is not None:
                note_key_file(self._database.file.parent, self._key_file)
            return found
        if known_ids:
            raise ConfigError(
                f"there is no key file {location.file}, and the catalog's secrets are encrypted with another key "
                f"({', '.join(sorted(known_ids))})",
                hint=f"restore the file, or name the right one by {KEY_FILE_VARIABLE} or {KEY_VARIABLE}; or drop the "
                "secrets and create them again",
            )
        make_key_file(location.file)
        return find_keys(location)


def _named(name: str) -> Select[tuple[str]]:
    return select(SECRETS.c.secret_name).where(SECRETS.c.secret_name == name)


def _key_ids(connection: Connection) -> set[str]:
    return set(connection.scalars(select(SECRETS.c.key_id)))


def _names(connection: Connection) -> list[str]:
    return list(connection.scalars(select(SECRETS.c.secret_name)))
