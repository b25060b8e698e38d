"""Settings of a client: URL, token and TLS files, from arguments or the environment.

All are validated before the first request, so that an error appears where it was made.
"""

from __future__ import annotations

import os
import re
import ssl
from dataclasses import dataclass
from typing import List, Optional, Tuple, Union
from urllib.parse import SplitResult, urlsplit

from ..errors import BatonError, Problem

DEFAULT_URL = "http://127.0.0.1:8080"

#: URLs of the schedulers that this program has started and not stopped, the newest last.
started: List[str] = []

#: Characters that a server accepts.
_USER_MAX = 100

_File = Union[str, "os.PathLike[str]"]

#: A certificate and its key, or a file with both.
Cert = Union[_File, Tuple[_File, _File]]


@dataclass(frozen=True)
class TlsFiles:
    """The files for TLS, by name."""

    ca: Optional[str]
    cert: Optional[str]
    key: Optional[str]


def urls(value: Optional[str]) -> Tuple[str, List[SplitResult]]:
    """The URL of the scheduler, or several separated by commas, and the parts of each."""
    text = value or (started[-1] if started else os.environ.get("BATON_URL") or DEFAULT_URL)
    if not isinstance(text, str):
        raise _no_url(repr(text), f"write one such as {DEFAULT_URL}")
    all_parts = [_parts(one) for one in text.split(",")]
    if any(parts.path != all_parts[0].path for parts in all_parts):
        raise _no_url("the list of URLs", "all must have the same path")
    return text.rstrip("/"), all_parts


def _parts(text: str) -> SplitResult:
    """The parts of one URL."""
    text = text.strip(" ").rstrip("/")
    try:
        parts = urlsplit(text)
        host = parts.hostname or ""
        # Both are validated only on access.
        _, _ = parts.port, host.encode("idna")
    except ValueError as error:
        raise _no_url(f"`{text}`", str(error)) from error
    if parts.username is not None or parts.password is not None:
        # Without the text: it may have a password.
        raise _no_url("the given text", "remove the user, and pass a token instead")
    fake = not parts.path.isascii() or any(letter <= " " or letter == "\x7f" for letter in text)
    if parts.scheme not in ("http", "https") or not host or parts.query or parts.fragment or fake:
        raise _no_url(f"`{text}`", f"write one such as {DEFAULT_URL}")
    return parts


def token(value: Optional[str]) -> Optional[str]:
    """The token to send, if any."""
    text = value or os.environ.get("BATON_TOKEN") or _token_of_file()
    # Without the text: it may be a misspelt secret.
    known = isinstance(text, str) and text.strip().isascii()
    if not known or any(not " " < letter < "\x7f" for letter in text.strip()):
        detail = "it must be one line as `baton token create` prints it"
        raise BatonError(Problem("the token is invalid", detail))
    return text.strip() or None


def _token_of_file() -> str:
    """The token in the file that `BATON_TOKEN_FILE` names, as for `baton`; none without it."""
    path = os.environ.get("BATON_TOKEN_FILE")
    if not path:
        return ""
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is no text"
        detail = f"{path} of BATON_TOKEN_FILE: {reason}"
        raise BatonError(Problem("the token file cannot be read", detail)) from error


def user() -> Optional[str]:
    """The name of the user, which servers without authentication record, if it can be sent."""
    name = os.environ.get("USER") or ""
    printable = all(" " < letter < "\x7f" for letter in name)
    return name if name and len(name) <= _USER_MAX and printable else None


def trace() -> Optional[str]:
    """The span of the program that runs this one; what is submitted becomes a child of it."""
    context = (os.environ.get("TRACEPARENT") or "").strip()
    # Whether it is valid is decided by the scheduler.
    return context if re.fullmatch("[0-9a-z-]{1,128}", context) else None


def tls_files(ca: Optional[_File], cert: Optional[Cert]) -> TlsFiles:
    """The files for TLS."""
    trusted = _file("ca", ca) if ca else os.environ.get("BATON_CA") or None
    if not cert:
        shown = os.environ.get("BATON_CERT") or None
        return TlsFiles(trusted, shown, os.environ.get("BATON_KEY") or None)
    if not isinstance(cert, (tuple, list)):
        return TlsFiles(trusted, _file("cert", cert), None)
    if len(cert) != 2:
        raise _unusable(f"cert has {len(cert)} files; give a pair, or one file with both")
    return TlsFiles(trusted, _file("cert", cert[0]), _file("the key of cert", cert[1]))


def tls(files: TlsFiles) -> ssl.SSLContext:
    """The TLS context."""
    for word, path in (("ca", files.ca), ("cert", files.cert), ("key", files.key)):
        # The errors of the TLS library do not name the file.
        if path is not None:
            _readable(word, path)
    try:
        context = ssl.create_default_context(cafile=files.ca)
    except (OSError, ValueError) as error:
        raise _unusable(f"{files.ca} has no certificates ({error})") from error
    if files.cert is not None:
        try:
            context.load_cert_chain(files.cert, files.key)
        except (OSError, ValueError) as error:
            both = files.cert if files.key is None else f"{files.cert} with {files.key}"
            reason = f"{both} is not a certificate with its key ({error})"
            raise _unusable(reason) from error
    return context


def _readable(word: str, path: str) -> None:
    try:
        with open(path, "rb"):
            pass
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise _unusable(f"{word} {path}: {reason}") from error


def _file(word: str, value: object) -> str:
    if isinstance(value, (str, os.PathLike)):
        path = os.fspath(value)
        if isinstance(path, str):
            return path
    raise _unusable(f"{word} is {value!r}, and should be the name of a file")


def _unusable(reason: str) -> BatonError:
    detail = f"{reason}; check ca and cert (or BATON_CA, BATON_CERT and BATON_KEY)"
    return BatonError(Problem("the files for TLS cannot be used", detail))


def _no_url(what: str, reason: str) -> BatonError:
    return BatonError(Problem(f"{what} is not a URL of a scheduler", reason))
