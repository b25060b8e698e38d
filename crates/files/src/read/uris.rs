//! Files to fetch into the sandbox before a task starts.

use std::collections::BTreeMap;

use baton_model::spec::Uri;

use super::scalars::hash;
use super::{Item, Reader};
use crate::error::{Kind, quote};
use crate::limits::{URI_BYTES_MAX, URIS_MAX};
use crate::name::bad_name;
use crate::schema::task::URI;
use crate::tree::Value;

const FROM_HINT: &str = "write a URL such as https://host/data.csv or file:///srv/data.csv";
/// Suffixes of archives and compressed files, the longer ones first.
const SUFFIXES: [&str; 11] = [
    ".tar.gz", ".tar.xz", ".tar.zst", ".tgz", ".txz", ".tzst", ".tar", ".zip", ".gz", ".xz", ".zst",
];
const NAME_HINT: &str = "write a plain file name: `name: data.csv`";

impl Reader {
    pub(super) fn uris(&mut self, item: &Item<'_>) -> Vec<Uri> {
        let items = self.list(
            item,
            "write a list, such as [https://host/data.csv, { from: file:///srv/tool, executable: true }]",
        );
        if items.len() > URIS_MAX {
            let message = format!(
                "{} files are listed, at most {URIS_MAX} are allowed",
                items.len()
            );
            self.note(item, Kind::TooLarge, message, "pack them into one archive");
            return Vec::new();
        }
        let mut names: BTreeMap<String, usize> = BTreeMap::new();
        let mut uris = Vec::with_capacity(items.len());
        for (index, item) in items.iter().enumerate() {
            let Some(uri) = self.uri(item) else { continue };
            if let Some(other) = names.insert(uri.name.clone(), index) {
                self.note(
                    item,
                    Kind::DuplicateName,
                    format!(
                        "the name {} is already used by `uris[{other}]`",
                        quote(&uri.name)
                    ),
                    "rename one of them: { from: …, name: NAME }",
                );
            }
            uris.push(uri);
        }
        uris
    }

    /// Reads a URL, or a map with one.
    fn uri(&mut self, item: &Item<'_>) -> Option<Uri> {
        if !matches!(item.tree.value, Value::Map(_)) {
            let from = self.address(item)?;
            let name = self.last_segment(item, &from)?;
            return Some(Uri {
                from,
                name,
                sha256: None,
                executable: false,
                unpack: false,
                size_max: None,
            });
        }
        let fields = self.fields(item, &URI, |_| None)?;
        let from = match fields.get("from") {
            Some(from) => self.address(&from),
            None => {
                self.missing(&fields, "from", FROM_HINT);
                None
            }
        };
        let explicit = fields.get("name").map(|name| self.file_name(&name));
        let sha256 = fields.get("sha256").map(|sum| self.sha256(&sum));
        let executable = self.bool_field(&fields, "executable").unwrap_or_default();
        let unpack = self.bool_field(&fields, "unpack").unwrap_or_default();
        let size_max = fields.get("max_size").map(|size| self.size_max(&size));
        let from = from?;
        let name = match explicit {
            Some(name) => name?,
            None => {
                let name = self.last_segment(item, &from)?;
                if unpack { unpacked_name(name) } else { name }
            }
        };
        Some(Uri {
            from,
            name,
            sha256: match sha256 {
                Some(sum) => Some(sum?),
                None => None,
            },
            executable,
            unpack,
            size_max: match size_max {
                Some(size) => Some(size?),
                None => None,
            },
        })
    }

    fn size_max(&mut self, item: &Item<'_>) -> Option<u64> {
        let size = self.size(item)?;
        if size == 0 {
            let message = "nothing could be fetched".to_owned();
            self.note(
                item,
                Kind::OutOfRange,
                message,
                "write a size such as 10GiB",
            );
            return None;
        }
        Some(size)
    }

    fn address(&mut self, item: &Item<'_>) -> Option<String> {
        let text = self.text(item, FROM_HINT)?;
        let (scheme, rest) = text.split_once("://").unwrap_or(("", text));
        let scheme = scheme.to_ascii_lowercase();
        let (reason, hint) = if text.len() > URI_BYTES_MAX {
            (format!("is longer than {URI_BYTES_MAX} bytes"), FROM_HINT)
        } else if !text.chars().all(|c| c.is_ascii_graphic()) {
            let hint = "percent-encode spaces and special characters as %XX";
            (
                "contains characters that are not allowed in a URL".to_owned(),
                hint,
            )
        } else {
            match &*scheme {
                "file" if rest.starts_with('/') => return Some(text.to_owned()),
                "file" => {
                    let hint = "write file:// and an absolute path: file:///srv/data.csv";
                    ("has no absolute path".to_owned(), hint)
                }
                "http" | "https" if !rest.is_empty() && !rest.starts_with(['/', ':', '?', '#']) => {
                    return Some(text.to_owned());
                }
                "http" | "https" => ("has no host".to_owned(), FROM_HINT),
                _ => {
                    let reason = "begins with none of https://, http:// and file://";
                    (reason.to_owned(), FROM_HINT)
                }
            }
        };
        self.note(
            item,
            Kind::BadValue,
            format!("{} {reason}", quote(text)),
            hint,
        );
        None
    }

    /// Returns the default file name: the last segment of the path.
    fn last_segment(&mut self, item: &Item<'_>, from: &str) -> Option<String> {
        let (_, rest) = from.split_once("://").unwrap_or(("", from));
        let path = rest.split(['?', '#']).next().unwrap_or_default();
        let last = path.split_once('/').map_or("", |(_, path)| path);
        let last = last.rsplit('/').next().unwrap_or_default();
        if bad_name(last).is_none() {
            return Some(last.to_owned());
        }
        self.note(
            item,
            Kind::BadName,
            format!("{} does not end in a file name", quote(from)),
            "add a file name: { from: …, name: data.csv }",
        );
        None
    }

    pub(super) fn file_name(&mut self, item: &Item<'_>) -> Option<String> {
        let text = self.text(item, NAME_HINT)?;
        if let Some(reason) = bad_name(text) {
            let message = format!("{} is not a plain file name: {reason}", quote(text));
            self.note(item, Kind::BadName, message, NAME_HINT);
            return None;
        }
        Some(text.to_owned())
    }

    fn sha256(&mut self, item: &Item<'_>) -> Option<String> {
        const HINT: &str = "write the 64 hexadecimal digits that `sha256sum` prints, in quotes";
        // YAML parses digits alone as a number, which loses leading zeros: require a string.
        let text = self.text(item, HINT)?;
        let sum = hash(text);
        if sum.is_none() {
            let message = format!("{} is not a SHA-256 hash", quote(text));
            self.note(item, Kind::BadValue, message, HINT);
        }
        sum
    }
}

/// The name of what is unpacked from a file of this name.
fn unpacked_name(name: String) -> String {
    let lower = name.to_ascii_lowercase();
    let mut suffixes = SUFFIXES.iter().filter(|suffix| lower.ends_with(**suffix));
    match suffixes.next() {
        Some(suffix) if suffix.len() < name.len() => name[..name.len() - suffix.len()].to_owned(),
        _ => name,
    }
}
