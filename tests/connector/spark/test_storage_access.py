"""What Hadoop's configuration says of a store, as arguments of pyarrow's file system."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyarrow import fs

from penstock.connector.spark.internals import hadoop_configuration, java_array, java_class, jvm_of
from penstock.connector.spark.session import configured
from penstock.connector.spark.storage_access import (
    hadoop_keys,
    is_password,
    storage_access,
    store_of,
)
from penstock.connector.storage import BY_ITSELF, account_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BUCKET = "s3a://lake/checkpoints/job"
CONTAINER = "abfss://state@acct.dfs.core.windows.net/job"

SIMPLE = "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider"
TEMPORARY = "org.apache.hadoop.fs.s3a.TemporaryAWSCredentialsProvider"
NOBODY = "org.apache.hadoop.fs.s3a.AnonymousAWSCredentialsProvider"
OF_ENVIRONMENT = "software.amazon.awssdk.auth.credentials.EnvironmentVariableCredentialsProvider"
OF_MACHINE = "org.apache.hadoop.fs.s3a.auth.IAMInstanceCredentialsProvider"
DEFAULTS = {
    "aws.credentials.provider": f"\n  {TEMPORARY},\n  {SIMPLE},\n  {OF_ENVIRONMENT},\n  {OF_MACHINE}\n",
    "connection.ssl.enabled": "true",
    "path.style.access": "false",
}
"""What Hadoop's core-default.xml has."""

KEYS = {"access.key": "AK", "secret.key": "SK"}
AS_KEYS = {"access_key": "AK", "secret_key": "SK"}
TOKEN = {"session.token": "ST"}


def of_s3(**settings: str) -> dict[str, str]:
    """Return keys of Hadoop's configuration; names have underscores for dots."""
    return {f"fs.s3a.{name.replace('_', '.')}": value for name, value in settings.items()}


def found(location: str, settings: Mapping[str, str]) -> dict[str, Any]:
    """Return the arguments for a location."""
    store = store_of(location, settings)
    return {} if store is None else dict(store.arguments)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, {}),
        (KEYS, AS_KEYS),
        ({**KEYS, **TOKEN}, {**AS_KEYS, "session_token": "ST"}),
        # half a key is none
        ({"access.key": "AK"}, {}),
        ({**KEYS, "access.key": " "}, {}),
        (TOKEN, {}),
        ({"aws.credentials.provider": NOBODY}, {"anonymous": True}),
        ({**KEYS, "aws.credentials.provider": NOBODY}, {"anonymous": True}),
        # a provider of keys without a token takes none
        ({**KEYS, **TOKEN, "aws.credentials.provider": SIMPLE}, AS_KEYS),
        ({**KEYS, "aws.credentials.provider": f"{TEMPORARY} , {SIMPLE}"}, AS_KEYS),
        ({**KEYS, "aws.credentials.provider": TEMPORARY}, {}),
        ({**KEYS, "aws.credentials.provider": f"{OF_ENVIRONMENT},{SIMPLE}"}, AS_KEYS),
        ({"aws.credentials.provider": f"{SIMPLE},{NOBODY}"}, {"anonymous": True}),
        # pyarrow looks there by itself, and anonymous requests would be refused where there are keys
        ({"aws.credentials.provider": f"{OF_MACHINE},{NOBODY}"}, {}),
        ({**KEYS, "aws.credentials.provider": OF_MACHINE}, {}),
        # a class that nobody knows here is asked first by Hadoop
        ({**KEYS, "aws.credentials.provider": f"com.example.Vault,{SIMPLE}"}, {}),
        ({"aws.credentials.provider": f"com.example.Vault,{NOBODY}"}, {}),
        ({**KEYS, "aws.credentials.provider": f"{SIMPLE},com.example.Vault"}, AS_KEYS),
    ],
)
def test_keys_are_those_of_hadoops_providers(
    settings: dict[str, str], expected: dict[str, Any]
) -> None:
    """With what stands in core-default.xml, and without it, as in settings of a project."""
    for before in (DEFAULTS, {}):
        assert found(BUCKET, of_s3(**{**before, **settings})) == expected


IN_PATH = {"path.style.access": "true"}


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"endpoint.region": "eu-west-1"}, {"region": "eu-west-1"}),
        # where it runs: pyarrow asks the bucket
        ({"endpoint.region": "sdk"}, {}),
        ({"endpoint": "s3.amazonaws.com"}, {}),
        ({"endpoint": "https://s3.amazonaws.com", "endpoint.region": "eu-west-1"},
         {"region": "eu-west-1"}),
        ({"endpoint": "http://minio:9000", **IN_PATH},
         {"region": "us-east-1", "endpoint_override": "minio:9000", "scheme": "http"}),
        ({"endpoint": "http://minio:9000/", "path.style.access": "TRUE"},
         {"region": "us-east-1", "endpoint_override": "minio:9000", "scheme": "http"}),
        ({"endpoint": "minio:9000", **IN_PATH},
         {"region": "us-east-1", "endpoint_override": "minio:9000", "scheme": "https"}),
        ({"endpoint": "minio:9000", "connection.ssl.enabled": "false", **IN_PATH},
         {"region": "us-east-1", "endpoint_override": "minio:9000", "scheme": "http"}),
        # the address says it
        ({"endpoint": "https://minio:9000", "connection.ssl.enabled": "false", **IN_PATH},
         {"region": "us-east-1", "endpoint_override": "minio:9000", "scheme": "https"}),
        ({"endpoint": "https://minio.example", "endpoint.region": "garage"},
         {"region": "garage", "endpoint_override": "minio.example", "scheme": "https",
          "force_virtual_addressing": True}),
        # no bucket can be a part of a number
        ({"endpoint": "http://10.0.0.7:9000"},
         {"region": "us-east-1", "endpoint_override": "10.0.0.7:9000", "scheme": "http"}),
        ({"endpoint": "http://[::1]:9000"},
         {"region": "us-east-1", "endpoint_override": "[::1]:9000", "scheme": "http"}),
        ({"endpoint": "s3.eu-central-1.amazonaws.com"},
         {"region": "eu-central-1", "endpoint_override": "s3.eu-central-1.amazonaws.com",
          "scheme": "https", "force_virtual_addressing": True}),
        ({"endpoint": "https://bucket.vpce-1a-2b.s3.us-gov-west-1.vpce.amazonaws.com", **IN_PATH},
         {"region": "us-gov-west-1", "scheme": "https",
          "endpoint_override": "bucket.vpce-1a-2b.s3.us-gov-west-1.vpce.amazonaws.com"}),
        ({"endpoint": "s3-fips.us-east-2.amazonaws.com", **IN_PATH},
         {"region": "us-east-2", "endpoint_override": "s3-fips.us-east-2.amazonaws.com",
          "scheme": "https"}),
        ({"endpoint": "s3.cn-north-1.amazonaws.com.cn", **IN_PATH},
         {"region": "cn-north-1", "endpoint_override": "s3.cn-north-1.amazonaws.com.cn",
          "scheme": "https"}),
    ],
)  # fmt: skip
def test_an_address_is_where_hadoop_asks(
    settings: dict[str, str], expected: dict[str, Any]
) -> None:
    """With the region that it names; one of a store without regions is any."""
    for before in (DEFAULTS, {}):
        assert found(BUCKET, of_s3(**{**before, **settings})) == expected


def test_a_bucket_has_settings_of_its_own() -> None:
    """Over those of all buckets, one by one."""
    settings = {
        **of_s3(**KEYS, endpoint="http://minio:9000", **IN_PATH),
        "fs.s3a.bucket.lake.access.key": "LAKE",
        "fs.s3a.bucket.lake.secret.key": "OF-LAKE",
        "fs.s3a.bucket.lakes.access.key": "LAKES",
        "fs.s3a.bucket.pond.endpoint": "http://pond:9000",
    }
    of_lake, of_pond = found(BUCKET, settings), found("s3://pond/x", settings)

    assert (of_lake["access_key"], of_lake["secret_key"]) == ("LAKE", "OF-LAKE")
    assert of_lake["endpoint_override"] == "minio:9000"
    assert (of_pond["access_key"], of_pond["endpoint_override"]) == ("AK", "pond:9000")


OAUTH = {
    "fs.azure.account.auth.type": "OAuth",
    "fs.azure.account.oauth.provider.type": "org.apache.hadoop.fs.azurebfs.oauth2.ClientCredsTokenProvider",
    "fs.azure.account.oauth2.client.id": "id",
    "fs.azure.account.oauth2.client.secret": "secret",
    "fs.azure.account.oauth2.client.endpoint": "https://login.microsoftonline.com/tenant/oauth2/token",
}
OF_ACCOUNT = "acct.dfs.core.windows.net"


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, {}),
        ({f"fs.azure.account.key.{OF_ACCOUNT}": "K"}, {"account_key": "K"}),
        ({"fs.azure.account.key": "K"}, {"account_key": "K"}),
        ({f"fs.azure.account.key.{OF_ACCOUNT}": "OWN", "fs.azure.account.key": "K"},
         {"account_key": "OWN"}),
        ({"fs.azure.account.key.other.dfs.core.windows.net": "K"}, {}),
        ({f"fs.azure.account.auth.type.{OF_ACCOUNT}": "SAS", "fs.azure.account.key": "K",
          f"fs.azure.sas.fixed.token.{OF_ACCOUNT}": "sv=1"}, {"sas_token": "sv=1"}),
        (OAUTH, {"tenant_id": "tenant", "client_id": "id", "client_secret": "secret"}),
        ({key: value for key, value in OAUTH.items() if "secret" not in key}, {}),
        # another cloud's: pyarrow asks the public one
        ({**OAUTH, "fs.azure.account.oauth2.client.endpoint": "https://login.chinacloudapi.cn/t/oauth2/token"}, {}),
        ({**OAUTH, "fs.azure.account.oauth.provider.type": "org.apache.hadoop.fs.azurebfs.oauth2.MsiTokenProvider"},
         {"client_id": "id"}),
        ({**OAUTH, "fs.azure.account.oauth.provider.type": "com.example.Tokens"}, {}),
        ({"fs.azure.account.auth.type": "Custom", "fs.azure.account.key": "K"}, {}),
    ],
)  # fmt: skip
def test_an_account_of_azure_is_opened_by_its_keys(
    settings: dict[str, str], expected: dict[str, Any]
) -> None:
    assert found(CONTAINER, settings) == expected
    assert found(CONTAINER.replace("abfss", "abfs"), settings) == expected


def test_an_account_of_another_cloud_has_its_host() -> None:
    location = "abfss://state@acct.dfs.core.chinacloudapi.cn/job"

    assert found(location, {"fs.azure.account.key": "K"}) == {
        "account_key": "K",
        "dfs_storage_authority": ".dfs.core.chinacloudapi.cn",
        "blob_storage_authority": ".blob.core.chinacloudapi.cn",
    }
    assert found(location, {}) == {}


@pytest.mark.parametrize(
    "location",
    [
        "/local/job",
        "file:///local/job",
        "hdfs://namenode/job",
        "gs://bucket/job",
        "wasbs://state@acct.blob.core.windows.net/job",
        "s3a://key:secret@lake/job",
        "s3a:/job",
    ],
)
def test_other_locations_are_left_to_pyarrow(location: str) -> None:
    """Nothing is asked for them; as is one with a key in it."""
    assert hadoop_keys(location) == ()
    assert store_of(location, of_s3(**KEYS)) is None


def test_pyarrow_takes_what_is_derived() -> None:
    """No request is made."""
    settings = {
        **of_s3(**KEYS, **TOKEN, endpoint="http://minio.example:9000"),
        "fs.azure.account.key": "Sw==",
    }

    assert fs.S3FileSystem(**found(BUCKET, settings)).region == "us-east-1"
    account = account_of("state@acct.dfs.core.windows.net").partition(".")[0]
    assert fs.AzureFileSystem(account, **found(CONTAINER, settings)).type_name == "abfs"
    nobody = of_s3(**{"aws.credentials.provider": NOBODY, "endpoint.region": "eu-west-1"})
    assert fs.S3FileSystem(**found(BUCKET, nobody)).region == "eu-west-1"


def test_passwords_are_the_keys() -> None:
    """Hadoop looks these up in its credential providers, too."""
    passwords = {key for at in (BUCKET, CONTAINER) for key in hadoop_keys(at) if is_password(key)}

    assert passwords == {
        *(
            f"fs.s3a.{of}{name}"
            for of in ("", "bucket.lake.")
            for name in ("access.key", "secret.key", "session.token")
        ),
        *(
            f"fs.azure.{name}{of}"
            for of in ("", f".{OF_ACCOUNT}")
            for name in ("account.key", "sas.fixed.token", "account.oauth2.client.secret")
        ),
    }


def test_it_is_asked_of_the_sessions_configuration(spark: SparkSession) -> None:
    """Of Hadoop's, in which Spark has put `spark.hadoop.*` and what the session sets."""
    settings = {
        **of_s3(**KEYS, endpoint="http://minio:9000", **IN_PATH),
        f"fs.azure.account.key.{OF_ACCOUNT}": "K",
    }
    with configured(spark, settings):
        access = storage_access(spark, BUCKET, None, "/local", CONTAINER, BUCKET)

    assert len(access.stores) == 2
    stores = [access.store_of(location) for location in (BUCKET, CONTAINER)]
    assert [store and dict(store.arguments) for store in stores] == [
        found(BUCKET, settings),
        found(CONTAINER, settings),
    ]
    assert storage_access(spark, BUCKET, CONTAINER) == BY_ITSELF


def test_keys_come_from_hadoops_credential_providers(spark: SparkSession, tmp_path: Path) -> None:
    """They are in no setting then."""
    store = f"jceks://file{tmp_path}/keys.jceks"
    text = jvm_of(spark).java.lang.String
    for name, value in KEYS.items():
        shell = java_class(spark, "org.apache.hadoop.security.alias.CredentialShell")()
        shell.setConf(hadoop_configuration(spark))
        said = ("create", f"fs.s3a.{name}", "-value", value, "-provider", store)
        assert shell.run(java_array(spark, text, *said)) == 0
    with configured(spark, {"hadoop.security.credential.provider.path": store}):
        access = storage_access(spark, BUCKET)

    assert [dict(store.arguments) for store in access.stores] == [AS_KEYS]
