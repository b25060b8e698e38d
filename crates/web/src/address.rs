//! Addresses that a server of pages may send a browser to.

/// A path on this server; otherwise the overview.
///
/// Browsers read `//host`, `/\host`, and both with a tab or a line break in them, as another server. An
/// address that a page has sent contains visible ASCII characters only.
#[must_use]
pub fn local(address: &str) -> &str {
    let is_local = address.starts_with('/')
        && !address.starts_with("//")
        && address
            .bytes()
            .all(|it| it.is_ascii_graphic() && it != b'\\');
    if is_local { address } else { "/" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_paths_of_this_server_are_followed() {
        for here in ["/", "/runs/r1?x=1", "/ann/tasks/daily%20report", "/a//b"] {
            assert_eq!(local(here), here);
        }
        for elsewhere in [
            "//evil.example",
            "https://evil.example",
            "",
            "evil.example",
            "/\\evil.example",
            "/a\r\nb",
            "/\t/evil.example",
            "\t//evil.example",
            "/\n/evil.example",
            "/\u{0}/evil.example",
            "/\u{7f}/evil.example",
            "/ /evil.example",
            "/\u{a0}/evil.example",
        ] {
            assert_eq!(local(elsewhere), "/", "{elsewhere:?}");
        }
    }
}
