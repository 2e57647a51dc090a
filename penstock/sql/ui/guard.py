"""What a request must bring: a name that the server has, the token where one is asked for, and no other origin.

The token comes as `Authorization: Bearer`, or once as `?token=`: a browser gets a cookie for it, and the address
without it. Health checks need no token, as they tell nothing but that.
"""

from __future__ import annotations

import hashlib
import hmac
from ipaddress import ip_address
from typing import TYPE_CHECKING

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from penstock.sql.ui.access import PageAccess


OPEN_PATHS = frozenset({"/healthz", "/readyz"})

READING_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})

SECURITY_HEADERS = {
    "Content-Security-Policy": "default-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


class SecurityHeaders:
    """Adds the headers that keep a browser from loading, keeping or showing anything else."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(SECURITY_HEADERS)
            await send(message)

        await self._app(scope, receive, send_with_headers)


class NameCheck:
    """Refuses requests under another name: a page elsewhere lets its own name lead here (DNS rebinding).

    Health is told under any: a probe names the address of its pod.
    """

    def __init__(self, app: ASGIApp, access: PageAccess) -> None:
        self._app = app
        self._names = frozenset(map(plain_name, access.names))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        is_open = scope["type"] != "http" or scope["path"] in OPEN_PATHS
        if is_open or self._is_known(Headers(scope=scope).get("host", "")):
            await self._app(scope, receive, send)
            return
        refused = PlainTextResponse("this server has no such name\n", status_code=400)
        await refused(scope, receive, send)

    def _is_known(self, host: str) -> bool:
        name = (
            host.rpartition("]")[0].lstrip("[") if host.startswith("[") else host.partition(":")[0]
        )
        name = plain_name(name)
        domain = name.partition(".")[2]
        return name in self._names or bool(domain and f"*.{domain}" in self._names)


class TokenCheck:
    """Refuses requests without the token."""

    def __init__(self, app: ASGIApp, access: PageAccess) -> None:
        self._app = app
        self._token = access.token or ""
        self._is_secure = access.tls is not None
        # of one server: a cookie is sent to all ports of a name
        self._cookie = "__Host-penstock" if self._is_secure else "penstock"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, refuse it, or give its browser the cookie."""
        if scope["type"] != "http" or not self._token or scope["path"] in OPEN_PATHS:
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        if self._has_token(request):
            await self._app(scope, receive, send)
        elif _equal(request.query_params.get("token", ""), self._token):
            await self._admitted(request)(scope, receive, send)
        else:
            await _refusal(request)(scope, receive, send)

    def _has_token(self, request: Request) -> bool:
        kind, _, sent = request.headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer" and _equal(sent.strip(), self._token):
            return True
        # the parser of http.cookies ends at the first cookie that it does not like, which may be another program's
        return _equal(request.cookies.get(self._cookie, ""), self._proof())

    def _proof(self) -> str:
        """Return the value of the cookie: who finds it in a browser has no token for programs."""
        return hmac.new(self._token.encode(), b"penstock status page", hashlib.sha256).hexdigest()

    def _admitted(self, request: Request) -> Response:
        rest = request.url.remove_query_params("token")
        # one slash: two would name another server
        path = f"/{rest.path.lstrip('/')}"
        answer = RedirectResponse(f"{path}?{rest.query}" if rest.query else path, 303)
        answer.set_cookie(
            self._cookie,
            self._proof(),
            path="/",
            httponly=True,
            samesite="strict",
            secure=self._is_secure,
        )
        return answer


class OriginCheck:
    """Refuses what a page of another server sends: it would make this one work, or a browser confess a table.

    That a link leads here is no such request: whoever follows it sees the page.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] != "http" or _may_ask(Request(scope)):
            await self._app(scope, receive, send)
            return
        said = "a page of another server may not ask for this"
        await JSONResponse({"error": said}, status_code=403)(scope, receive, send)


def _may_ask(request: Request) -> bool:
    if request.method not in READING_METHODS:
        return _is_own(request)
    headers = request.headers
    # an older browser says neither
    if headers.get("sec-fetch-site", "none") in {"same-origin", "none"}:
        return True
    is_link = headers.get("sec-fetch-mode") == "navigate"
    return is_link and headers.get("sec-fetch-dest", "document") == "document"


def _is_own(request: Request) -> bool:
    """Return whether a request is of a page of this server, or of a program: browsers say the origin of each POST."""
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        return site in {"same-origin", "none"}
    # an older browser; to one that has the header the origin is `null` here, as no page tells where it leads from
    own = f"{request.url.scheme}://{request.headers.get('host', '')}"
    return request.headers.get("origin") in {None, own}


def plain_name(name: str) -> str:
    """Return a name or an address as it is compared: in one case, and without zeros that mean nothing."""
    try:
        return str(ip_address(name))
    except ValueError:
        return name.lower()


def _equal(sent: str, expected: str) -> bool:
    """Compare in a time that does not depend on how much of it is right."""
    return hmac.compare_digest(sent.encode(errors="replace"), expected.encode())


def _refusal(request: Request) -> Response:
    headers = {"WWW-Authenticate": "Bearer"}
    said = "this page asks for a token: open the address that was printed at its start, or send it as a bearer token"
    if request.url.path.startswith("/api/"):
        return JSONResponse({"error": said}, status_code=401, headers=headers)
    return PlainTextResponse(f"{said}\n", status_code=401, headers=headers)
