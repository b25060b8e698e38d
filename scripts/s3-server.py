"""An S3-compatible server for tests: moto, behind a check of the signatures in URLs.

    s3-server.py PORT ACCESS_KEY SECRET_KEY BUCKET [CERTIFICATE KEY]

It makes the bucket, and prints its port when it is ready. Objects are in memory. Moto itself checks
signatures in headers only; botocore computes what a URL must be signed with.
"""

import sys
from urllib.parse import parse_qsl, urlencode

from botocore.auth import S3SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from moto.core import DEFAULT_ACCOUNT_ID
from moto.s3.models import s3_backends
from moto.server import create_backend_app
from werkzeug.serving import WSGIRequestHandler, make_server

ERROR = b"<?xml version='1.0'?><Error><Code>%s</Code><Message>refused</Message></Error>"


class Signed:
    """Passes on requests that this key has signed."""

    def __init__(self, app, key, secret):
        self.app = app
        self.credentials = Credentials(key, secret)

    def __call__(self, environ, start_response):
        fault = self.fault(environ)
        if fault is None:
            return self.app(environ, start_response)
        body = ERROR % fault
        headers = [("content-type", "application/xml"), ("content-length", str(len(body)))]
        start_response("403 Forbidden", headers)
        return [body]

    def fault(self, environ):
        query = dict(parse_qsl(environ.get("QUERY_STRING", ""), keep_blank_values=True))
        signature = query.pop("X-Amz-Signature", None)
        scope = query.get("X-Amz-Credential", "").split("/")
        if signature is None or len(scope) != 5:
            return b"AccessDenied"
        if scope[0] != self.credentials.access_key:
            return b"InvalidAccessKeyId"
        url = f"{environ['wsgi.url_scheme']}://{environ['HTTP_HOST']}{environ['PATH_INFO']}"
        request = AWSRequest(
            method=environ["REQUEST_METHOD"],
            url=f"{url}?{urlencode(query)}",
            headers={"host": environ["HTTP_HOST"]},
        )
        request.context["timestamp"] = query["X-Amz-Date"]
        auth = S3SigV4QueryAuth(self.credentials, "s3", scope[2])
        canonical = auth.canonical_request(request)
        expected = auth.signature(auth.string_to_sign(request, canonical), request)
        return None if signature == expected else b"SignatureDoesNotMatch"


class Quiet(WSGIRequestHandler):
    """Keeps connections open, as real servers do, and logs nothing."""

    protocol_version = "HTTP/1.1"

    def log(self, *_):
        pass


def main():
    port, key, secret, bucket, *files = sys.argv[1:]
    s3_backends[DEFAULT_ACCOUNT_ID]["aws"].create_bucket(bucket, "us-east-1")
    app = create_backend_app("s3")
    server = make_server(
        "127.0.0.1",
        int(port),
        Signed(app, key, secret),
        threaded=True,
        request_handler=Quiet,
        ssl_context=tuple(files) or None,
    )
    print(server.server_port, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
