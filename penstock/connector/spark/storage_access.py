"""Derives from Hadoop's configuration how tasks open a store: the arguments of pyarrow's file system.

A closed set of settings is followed, the same that Hadoop's own connectors read for S3 (`fs.s3a.*`) and Azure
(`fs.azure.*`). What pyarrow cannot do as they say, such as a class that provides keys, is left to what it finds itself.
Called by the driver for the locations that tasks write to: a checkpoint, a folder of dead letters.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from penstock.connector.spark.internals import hadoop_configuration, java_class
from penstock.connector.storage import S3, StorageAccess, Store, account_of, store_name

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def storage_access(spark: SparkSession, *locations: str | None) -> StorageAccess:
    """Return how tasks open the stores of locations, by the configuration of Hadoop that the session has.

    Java is asked where one is in a store of which it may say something.
    """
    stores: dict[tuple[str, str], Store] = {}
    for location in filter(None, locations):
        keys = hadoop_keys(location)
        if not keys:
            continue
        configuration = hadoop_configuration(spark)
        values = {key: _value(spark, configuration, key) for key in keys}
        found = store_of(location, {key: text for key, text in values.items() if text is not None})
        if found is not None:
            stores[found.scheme, found.authority] = found
    return StorageAccess(stores=tuple(stores.values()))


def _value(spark: SparkSession, configuration: Any, key: str) -> str | None:
    """Return a setting; keys come from Hadoop's credential providers, where there are any."""
    if not is_password(key):
        return None if (text := configuration.get(key)) is None else str(text)
    characters = configuration.getPassword(key)
    return None if characters is None else str(java_class(spark, "java.lang.String")(characters))


# --- which settings, and what they mean ---

_S3_SETTINGS = (
    "access.key",
    "secret.key",
    "session.token",
    "aws.credentials.provider",
    "endpoint",
    "endpoint.region",
    "path.style.access",
    "connection.ssl.enabled",
)
"""Behind `fs.s3a.`, or `fs.s3a.bucket.NAME.` for one bucket."""

_AZURE_SETTINGS = (
    "account.auth.type",
    "account.key",
    "sas.fixed.token",
    "account.oauth.provider.type",
    "account.oauth2.client.id",
    "account.oauth2.client.secret",
    "account.oauth2.client.endpoint",
)
"""Behind `fs.azure.`, with the name of the account behind them or without."""

_PASSWORDS = re.compile(
    r"\.(access\.key|secret\.key|session\.token|account\.key|sas\.fixed\.token|client\.secret)\b"
)

_Setting = Callable[[str], str | None]
"""Returns a setting of one store by its name in the list above; None where it is not set."""


def hadoop_keys(location: str) -> tuple[str, ...]:
    """Return the keys by which Hadoop's configuration may say how the store of a location is opened.

    There are none for stores that pyarrow opens by itself.
    """
    named = store_name(location)
    if named is None:
        return ()
    scheme, authority = named
    if scheme == S3:
        return tuple(key for name in _S3_SETTINGS for key in _s3_keys(authority, name))
    return tuple(key for name in _AZURE_SETTINGS for key in _azure_keys(authority, name))


def is_password(key: str) -> bool:
    """Tell whether Hadoop looks a key up in its credential providers (`Configuration.getPassword`)."""
    return _PASSWORDS.search(key) is not None


def store_of(location: str, configuration: Mapping[str, str]) -> Store | None:
    """Return how pyarrow opens the store of a location by Hadoop's configuration, of which `hadoop_keys` is enough.

    None where it says nothing of it that pyarrow can follow, which then finds keys by itself.
    """
    named = store_name(location)
    if named is None:
        return None
    scheme, authority = named
    keys_of = _s3_keys if scheme == S3 else _azure_keys

    def setting(name: str) -> str | None:
        values = (configuration.get(key, "").strip() for key in keys_of(authority, name))
        return next(filter(None, values), None)

    if scheme == S3:
        arguments = {**_s3_credentials(setting), **_s3_endpoint(setting)}
    else:
        arguments = _azure_arguments(setting, account_of(authority))
    if not arguments:
        return None
    return Store(scheme=scheme, authority=authority, arguments=tuple(arguments.items()))


def _s3_keys(bucket: str, name: str) -> tuple[str, str]:
    return f"fs.s3a.bucket.{bucket}.{name}", f"fs.s3a.{name}"


def _azure_keys(authority: str, name: str) -> tuple[str, str]:
    return f"fs.azure.{name}.{account_of(authority)}", f"fs.azure.{name}"


_SIMPLE = "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider"
_TEMPORARY = "org.apache.hadoop.fs.s3a.TemporaryAWSCredentialsProvider"
_NOBODY = frozenset(
    {
        "org.apache.hadoop.fs.s3a.AnonymousAWSCredentialsProvider",
        "software.amazon.awssdk.auth.credentials.AnonymousCredentialsProvider",
        "com.amazonaws.auth.AnonymousAWSCredentials",
    }
)
_CHAIN = (
    "software.amazon.awssdk.auth.credentials.",
    "com.amazonaws.auth.",
    "org.apache.hadoop.fs.s3a.auth.IAMInstanceCredentialsProvider",
)
"""How the names of classes begin that look where pyarrow looks by itself."""


def _s3_credentials(setting: _Setting) -> dict[str, str | bool]:
    """Return the keys, or that there are none, by the first of Hadoop's providers that has an answer here.

    A class that is not known here may have keys of its own: all that stands behind it is left alone.
    """
    key, secret, token = map(setting, ("access.key", "secret.key", "session.token"))
    listed = re.split(r"[\s,]+", setting("aws.credentials.provider") or "")
    in_chain = False
    for provider in list(filter(None, listed)) or [_TEMPORARY, _SIMPLE]:
        if provider in (_TEMPORARY, _SIMPLE):
            if key is None or secret is None:
                continue
            if provider == _SIMPLE:
                return {"access_key": key, "secret_key": secret}
            if token is not None:
                return {"access_key": key, "secret_key": secret, "session_token": token}
        elif provider in _NOBODY:
            return {} if in_chain else {"anonymous": True}
        elif provider.startswith(_CHAIN):
            in_chain = True
        else:
            return {}
    return {}


_CENTRAL = "s3.amazonaws.com"
_REGIONAL = re.compile(
    r"(?:.*\.)?s3[.-](?:(?:fips|dualstack)\.)?([a-z]{2}(?:-[a-z]+)+-\d)\.(?:vpce\.)?amazonaws\.com(?:\.cn)?"
)
_LOOKED_UP = frozenset({"sdk", "ec2"})
"""Words in place of a region: Hadoop, and pyarrow by itself, look for it where they run."""

_ANY_REGION = "us-east-1"
"""What requests are signed with for a store that has no regions, and does not look; without one the SDK asks EC2."""


def _s3_endpoint(setting: _Setting) -> dict[str, str | bool]:
    """Return where the store is, and how its buckets are named in requests."""
    found: dict[str, str | bool] = {}
    region = setting("endpoint.region")
    if region is not None and region not in _LOOKED_UP:
        found["region"] = region
    scheme, _, host = (setting("endpoint") or _CENTRAL).rpartition("://")
    host = host.rstrip("/")
    if host == _CENTRAL:
        return found
    regional = _REGIONAL.fullmatch(host)
    found.setdefault("region", _ANY_REGION if regional is None else regional[1])
    is_plain = (setting("connection.ssl.enabled") or "").lower() == "false"
    found["endpoint_override"] = host
    found["scheme"] = scheme or ("http" if is_plain else "https")
    in_path = (setting("path.style.access") or "").lower() == "true"
    if not in_path and not _is_address(host):
        found["force_virtual_addressing"] = True
    return found


def _is_address(host: str) -> bool:
    """Tell whether a host is a number, of which no bucket can be a part: requests have the bucket in their path."""
    name = re.sub(r":\d+$", "", host).strip("[]")
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


_AZURE_HOST = "dfs.core.windows.net"
_LOGIN_HOST = "login.microsoftonline.com"
_OF_CLIENT = "ClientCredsTokenProvider"
_OF_MACHINE = "MsiTokenProvider"


def _azure_arguments(setting: _Setting, account: str) -> dict[str, str | bool]:
    """Return the keys of an account of Azure, and where it is in another cloud than the public one."""
    found = _azure_credentials(setting)
    _, _, host = account.partition(".")
    if found and host != _AZURE_HOST and host.startswith("dfs."):
        found["dfs_storage_authority"] = f".{host}"
        found["blob_storage_authority"] = f".blob.{host.removeprefix('dfs.')}"
    return found


def _azure_credentials(setting: _Setting) -> dict[str, str | bool]:
    match setting("account.auth.type") or "SharedKey":
        case "SharedKey":
            return _known(account_key=setting("account.key"))
        case "SAS":
            return _known(sas_token=setting("sas.fixed.token"))
        case "OAuth":
            provider = (setting("account.oauth.provider.type") or "").rpartition(".")[2]
            client = setting("account.oauth2.client.id")
            if provider == _OF_MACHINE:
                return _known(client_id=client)
            secret = setting("account.oauth2.client.secret")
            login = urlsplit(setting("account.oauth2.client.endpoint") or "")
            tenant = login.path.strip("/").partition("/")[0]
            if provider == _OF_CLIENT and login.hostname == _LOGIN_HOST and client and secret:
                return _known(tenant_id=tenant, client_id=client, client_secret=secret)
    return {}


def _known(**arguments: str | None) -> dict[str, str | bool]:
    return {name: value for name, value in arguments.items() if value is not None}
