//! The syntaxes of files.

use std::path::Path;

/// The syntax of a file. The schema is the same for all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// `.yaml`, `.yml`
    Yaml,
    /// `.toml`
    Toml,
    /// `.json`
    Json,
}

impl Format {
    /// Returns the format of a file extension.
    #[must_use]
    pub fn of(path: &Path) -> Option<Self> {
        let extension = path.extension()?.to_str()?.to_ascii_lowercase();
        match &*extension {
            "yaml" | "yml" => Some(Self::Yaml),
            "toml" => Some(Self::Toml),
            "json" => Some(Self::Json),
            _ => None,
        }
    }
}
