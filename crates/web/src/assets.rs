//! Style sheet, scripts and icons. They are part of the binary.
//!
//! The address of an asset contains the beginning of its digest, so that browsers may keep it for
//! ever, and a new version of Baton is a new address.

use std::fmt::Write as _;
use std::sync::LazyLock;

use sha2::{Digest as _, Sha256};

/// A file that pages load.
#[derive(Debug)]
pub struct Asset {
    /// Its name, with the beginning of its digest: `app-1a2b3c4d5e6f.css`.
    pub name: String,
    pub media_type: &'static str,
    pub content: &'static str,
}

/// The style sheet of pages.
pub(crate) const STYLE: &str = include_str!("../assets/app.css");
/// The rules for pictures of a run, which also exist as documents of their own.
pub(crate) const STYLE_OF_PICTURES: &str = include_str!("../assets/pictures.css");

static ASSETS: LazyLock<[Asset; 5]> = LazyLock::new(|| {
    [
        asset(
            "app",
            "css",
            "text/css; charset=utf-8",
            concat!(
                include_str!("../assets/app.css"),
                include_str!("../assets/pictures.css")
            ),
        ),
        asset(
            "app",
            "js",
            "text/javascript; charset=utf-8",
            include_str!("../assets/app.js"),
        ),
        asset(
            "idle",
            "svg",
            "image/svg+xml",
            include_str!("../assets/idle.svg"),
        ),
        asset(
            "busy",
            "svg",
            "image/svg+xml",
            include_str!("../assets/busy.svg"),
        ),
        asset(
            "failed",
            "svg",
            "image/svg+xml",
            include_str!("../assets/failed.svg"),
        ),
    ]
});

/// The asset of this name, which includes its digest.
#[must_use]
pub fn find(name: &str) -> Option<&'static Asset> {
    ASSETS.iter().find(|asset| asset.name == name)
}

pub(crate) fn style_sheet() -> &'static str {
    &ASSETS[0].name
}

pub(crate) fn script() -> &'static str {
    &ASSETS[1].name
}

pub(crate) fn icon(index: usize) -> &'static str {
    &ASSETS[2 + index].name
}

fn asset(name: &str, extension: &str, media_type: &'static str, content: &'static str) -> Asset {
    let digest = Sha256::digest(content.as_bytes());
    let mut short = String::new();
    for byte in &digest[..6] {
        // Writing to a string cannot fail.
        let _ = write!(short, "{byte:02x}");
    }
    Asset {
        name: format!("{name}-{short}.{extension}"),
        media_type,
        content,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_asset_is_found_by_its_digest_only() {
        let found = find(style_sheet()).expect("there");
        assert!(found.content.contains("--"), "{found:?}");
        assert!(find("app.css").is_none());
        assert!(find(icon(2)).is_some_and(|icon| icon.media_type == "image/svg+xml"));
    }
}
