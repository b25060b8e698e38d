//! Headers of pages and assets, for the servers that serve them.

/// Nothing is loaded from elsewhere, nothing in a page is a script or a style of its own, and no
/// other page may contain it.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
     connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// Name and value of the headers of every page.
pub const PAGE: [(&str, &str); 5] = [
    ("content-type", "text/html; charset=utf-8"),
    ("content-security-policy", POLICY),
    ("referrer-policy", "same-origin"),
    ("cache-control", "no-store"),
    ("vary", "accept, cookie"),
];

/// Name and value of the headers of every asset, beside its media type. The name of an asset
/// contains its digest, so it never changes.
pub const ASSET: [(&str, &str); 1] = [("cache-control", "public, max-age=31536000, immutable")];

/// Name and value of the header of every response, of whatever kind: a browser must not take a log, or
/// an error that quotes a name, for a page or a script.
pub const EVERY: (&str, &str) = ("x-content-type-options", "nosniff");
