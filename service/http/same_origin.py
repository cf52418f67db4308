"""Which requests come from a page of this very server, and not from another site that a browser shows."""

import ipaddress
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

_LOCAL_NAME: Final = "localhost"


def is_own_host(host: str) -> bool:
    """Return whether a Host header names this server in a way that no other site can: an address, or localhost.

    A site can let its own name stand for this server's address (DNS rebinding); its pages then count as same-origin to
    the browser, but the name that they use is theirs.
    """
    try:
        name = urlsplit(f"//{host}").hostname or ""
        return name == _LOCAL_NAME or bool(ipaddress.ip_address(name))
    except ValueError:
        return False


def is_own_script(headers: Mapping[str, str]) -> bool:
    """Return whether a request was made by a script of a page of this server.

    No form and no script of another site can make such a one: its Origin is another, and the content type JSON needs a
    leave that is never given.
    """
    host = headers.get("host", "")
    content_type = headers.get("content-type", "").partition(";")[0].strip().lower()
    return (
        is_own_host(host)
        and headers.get("origin", "") in (f"http://{host}", f"https://{host}")
        and headers.get("sec-fetch-site", "same-origin") == "same-origin"
        and content_type == "application/json"
    )
