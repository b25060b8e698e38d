//! Headers of pages and assets, for the servers that serve them.

/// Nothing is loaded from elsewhere, nothing in a page is a script or a style of its own, and no
/// other page may contain it.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
     connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// Name and value of the headers of every page.
pub const PAGE: [(&str, &str); 6] = [
    ("content-type", "text/html; charset=utf-8"),
    ("content-security-policy", POLICY),
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "same-origin"),
    ("cache-control", "no-store"),
    ("vary", "accept, cookie"),
];

/// Name and value of the headers of every asset, beside its media type. The name of an asset
/// contains its digest, so it never changes.
pub const ASSET: [(&str, &str); 2] = [
    ("cache-control", "public, max-age=31536000, immutable"),
    ("x-content-type-options", "nosniff"),
];
