"""A store that speaks S3 to those who sign requests with its keys, in memory: what pyarrow and Hadoop ask of one.

Buckets stand in the path of requests. A request whose signature (AWS Signature Version 4) is not made with the secret key,
or that lacks the session token, gets 403 and is noted in `refused`.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from threading import RLock, Thread
from typing import BinaryIO, ClassVar
from urllib.parse import parse_qsl, quote, unquote, urlsplit
from xml.sax.saxutils import escape

REGION = "us-east-1"
TIME = "2026-11-27T00:00:00.000Z"


class S3Server(ThreadingHTTPServer):
    """One store. `objects` are by bucket and key; `requests` are what was asked, in order, as `PUT bucket/key`."""

    daemon_threads = True

    def __init__(self, *, token: str | None = None) -> None:
        super().__init__(("127.0.0.1", 0), _Request)
        self.access_key, self.secret_key, self.token = (
            "PENSTOCKTESTKEY",
            "a/secret+key/of=tests",
            token,
        )
        self.bucket = "penstock"
        self.objects: dict[str, bytes] = {}
        self.uploads: dict[str, dict[int, bytes]] = {}
        self.requests: list[str] = []
        self.refused: list[str] = []
        self.lock = RLock()
        self.numbers = count(1)

    @property
    def endpoint(self) -> str:
        """Where it listens, as `fs.s3a.endpoint` has it."""
        return f"http://127.0.0.1:{self.server_port}"

    @property
    def settings(self) -> Mapping[str, str]:
        """What Hadoop's configuration says of it."""
        token = {} if self.token is None else {"fs.s3a.session.token": self.token}
        return {
            "fs.s3a.endpoint": self.endpoint,
            "fs.s3a.path.style.access": "true",
            "fs.s3a.access.key": self.access_key,
            "fs.s3a.secret.key": self.secret_key,
            **token,
        }

    def keys(self, prefix: str = "") -> list[str]:
        """The keys of what was written, without what stands for an empty folder."""
        with self.lock:
            return sorted(k for k in self.objects if k.startswith(prefix) and not k.endswith("/"))


@contextmanager
def running(*, token: str | None = None) -> Iterator[S3Server]:
    """Run a store for the time of a test."""
    with S3Server(token=token) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


class _Request(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: S3Server

    _DO: ClassVar = ("GET", "HEAD", "PUT", "POST", "DELETE")

    def __getattr__(self, name: str) -> object:
        if name.removeprefix("do_") in self._DO:
            return self._answer
        raise AttributeError(name)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  http.server's name
        """Say nothing."""

    def _answer(self) -> None:
        url = urlsplit(self.path)
        self.query = dict(parse_qsl(url.query, keep_blank_values=True))
        bucket, _, self.key = unquote(url.path).lstrip("/").partition("/")
        self.body = self._read_body()
        asked = f"{self.command} {bucket}/{self.key}"
        with self.server.lock:
            self.server.requests.append(asked)
            if not self._is_signed():
                self.server.refused.append(asked)
                self._error(403, "SignatureDoesNotMatch")
            elif bucket != self.server.bucket:
                self._error(404, "NoSuchBucket")
            elif self.key:
                self._object()
            else:
                self._bucket()

    # --- requests ---

    def _bucket(self) -> None:
        if self.command == "HEAD":
            self._send(200, headers={"x-amz-bucket-region": REGION})
        elif self.command == "POST" and "delete" in self.query:
            for key in re.findall(rb"<Key>(.*?)</Key>", self.body):
                self.server.objects.pop(key.decode(), None)
            self._send(200, b"<DeleteResult/>")
        elif self.command == "GET" and "location" in self.query:
            self._send(200, b"<LocationConstraint/>")
        elif self.command == "GET":
            self._list()
        else:
            self._error(400, "NotImplemented")

    def _list(self) -> None:
        prefix, delimiter = self.query.get("prefix", ""), self.query.get("delimiter", "")
        after = self.query.get("continuation-token") or self.query.get("start-after") or ""
        most = int(self.query.get("max-keys", "1000"))
        files: list[str] = []
        folders: list[str] = []
        more, last = False, ""
        for key in sorted(k for k in self.server.objects if k.startswith(prefix) and k > after):
            inner, found, _ = key[len(prefix) :].partition(delimiter) if delimiter else ("", "", "")
            folder = f"{prefix}{inner}{delimiter}" if found else None
            if folder is not None and folder in folders:
                last = key
                continue
            if len(files) + len(folders) == most:
                more = True
                break
            (files if folder is None else folders).append(folder or key)
            last = key
        written = quote if self.query.get("encoding-type") == "url" else escape
        contents = "".join(
            f"<Contents><Key>{written(key)}</Key><LastModified>{TIME}</LastModified>"
            f"<ETag>{_etag(self.server.objects[key])}</ETag><Size>{len(self.server.objects[key])}</Size>"
            "<StorageClass>STANDARD</StorageClass></Contents>"
            for key in files
        )
        prefixes = "".join(
            f"<CommonPrefixes><Prefix>{written(f)}</Prefix></CommonPrefixes>" for f in folders
        )
        next_token = (
            f"<NextContinuationToken>{escape(last)}</NextContinuationToken>" if more else ""
        )
        self._send(
            200,
            f'<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Name>{self.server.bucket}</Name>'
            f"<Prefix>{written(prefix)}</Prefix><KeyCount>{len(files) + len(folders)}</KeyCount>"
            f"<MaxKeys>{most}</MaxKeys><IsTruncated>{str(more).lower()}</IsTruncated>{next_token}"
            f"{contents}{prefixes}</ListBucketResult>".encode(),
        )

    def _object(self) -> None:
        match self.command:
            case "HEAD" | "GET":
                self._read_object()
            case "PUT":
                self._put()
            case "POST":
                self._upload()
            case _:
                if "uploadId" in self.query:
                    self.server.uploads.pop(self.query["uploadId"], None)
                else:
                    self.server.objects.pop(self.key, None)
                self._send(204)

    def _read_object(self) -> None:
        content = self.server.objects.get(self.key)
        if content is None:
            self._error(404, "NoSuchKey")
            return
        headers = {"ETag": _etag(content), "Accept-Ranges": "bytes"}
        asked = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        if asked is None:
            self._send(200, content, headers)
            return
        first, last = int(asked[1]), min(int(asked[2] or len(content)), len(content) - 1)
        if first > last:
            self._error(416, "InvalidRange")
            return
        headers["Content-Range"] = f"bytes {first}-{last}/{len(content)}"
        self._send(206, content[first : last + 1], headers)

    def _put(self) -> None:
        objects, source = self.server.objects, self.headers.get("x-amz-copy-source")
        if source is not None:
            copied = objects.get(unquote(source).lstrip("/").partition("/")[2])
            if copied is None:
                self._error(404, "NoSuchKey")
                return
            objects[self.key] = copied
            self._send(
                200,
                f"<CopyObjectResult><LastModified>{TIME}</LastModified><ETag>{_etag(copied)}</ETag>"
                "</CopyObjectResult>".encode(),
            )
        elif self.headers.get("If-None-Match") == "*" and self.key in objects:
            self._error(412, "PreconditionFailed")
        else:
            if "uploadId" in self.query:
                parts = self.server.uploads[self.query["uploadId"]]
                parts[int(self.query["partNumber"])] = self.body
            else:
                objects[self.key] = self.body
            self._send(200, headers={"ETag": _etag(self.body)})

    def _upload(self) -> None:
        if "uploads" in self.query:
            upload = f"upload-{next(self.server.numbers)}"
            self.server.uploads[upload] = {}
            self._send(
                200,
                f"<InitiateMultipartUploadResult><Bucket>{self.server.bucket}</Bucket><Key>{escape(self.key)}</Key>"
                f"<UploadId>{upload}</UploadId></InitiateMultipartUploadResult>".encode(),
            )
            return
        parts = self.server.uploads.pop(self.query["uploadId"])
        whole = b"".join(content for _, content in sorted(parts.items()))
        self.server.objects[self.key] = whole
        self._send(
            200,
            f"<CompleteMultipartUploadResult><Key>{escape(self.key)}</Key><ETag>{_etag(whole)}</ETag>"
            "</CompleteMultipartUploadResult>".encode(),
        )

    # --- the protocol ---

    def _read_body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
            body = _chunks(self.rfile)
        else:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if "aws-chunked" in self.headers.get("Content-Encoding", ""):
            from io import BytesIO

            body = _chunks(BytesIO(body))
        return body

    def _is_signed(self) -> bool:
        """Check the signature of a request, over its method, URL and headers."""
        found = re.fullmatch(
            r"AWS4-HMAC-SHA256 Credential=([^/]+)/([^,]+), ?SignedHeaders=([^,]+), ?Signature=(\w+)",
            self.headers.get("Authorization", ""),
        )
        if found is None or found[1] != self.server.access_key:
            return False
        if self.headers.get("x-amz-security-token") != self.server.token:
            return False
        url = urlsplit(self.path)
        pairs = parse_qsl(url.query, keep_blank_values=True)
        query = "&".join(sorted(f"{quote(k, safe='')}={quote(v, safe='')}" for k, v in pairs))
        names = found[3].split(";")
        headers = [f"{name}:{' '.join((self.headers.get(name) or '').split())}\n" for name in names]
        content = self.headers.get("x-amz-content-sha256") or hashlib.sha256(b"").hexdigest()
        asked = "\n".join((self.command, url.path, query, "".join(headers), found[3], content))
        digest = hashlib.sha256(asked.encode()).hexdigest()
        text = f"AWS4-HMAC-SHA256\n{self.headers['x-amz-date']}\n{found[2]}\n{digest}"
        key = f"AWS4{self.server.secret_key}".encode()
        for part in found[2].split("/"):
            key = hmac.digest(key, part.encode(), "sha256")
        return hmac.compare_digest(hmac.digest(key, text.encode(), "sha256").hex(), found[4])

    def _error(self, status: int, code: str) -> None:
        self._send(status, f"<Error><Code>{code}</Code><Message>{code}</Message></Error>".encode())

    def _send(
        self, status: int, body: bytes = b"", headers: Mapping[str, str] | None = None
    ) -> None:
        self.send_response(status)
        of_objects = {"Last-Modified": formatdate(0, usegmt=True), "x-amz-request-id": "1"}
        for name, value in (of_objects | dict(headers or {})).items():
            self.send_header(name, value)
        if status != 204:
            self.send_header("Content-Length", str(len(body)))
        if body.startswith(b"<") and status != 206:
            self.send_header("Content-Type", "application/xml")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


def _chunks(stream: BinaryIO) -> bytes:
    """Read a body that comes in chunks, of HTTP or of `aws-chunked`, with what stands behind them."""
    content = b""
    while size := int(stream.readline().partition(b";")[0], 16):
        content += stream.read(size)
        stream.readline()
    while stream.readline().strip():
        continue
    return content


def _etag(content: bytes) -> str:
    return f'"{hashlib.md5(content, usedforsecurity=False).hexdigest()}"'
