//! Files to fetch into the sandbox before a task starts.

use std::collections::BTreeMap;

use baton_model::spec::Uri;

use super::scalars::{bad_name, hash};
use super::{Item, Reader};
use crate::error::{Kind, quote};
use crate::limits::{URI_BYTES_MAX, URIS_MAX};
use crate::schema::task::URI;
use crate::tree::Value;

const FROM_HINT: &str = "write a URL such as file:///srv/data.csv or http://host/data.csv";
const NAME_HINT: &str = "write a plain file name: `name: data.csv`";

impl Reader {
    pub(super) fn uris(&mut self, item: &Item<'_>) -> Vec<Uri> {
        let items = self.list(
            item,
            "write a list, such as [http://host/data.csv, { from: file:///srv/tool, executable: true }]",
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
        let from = from?;
        let name = match explicit {
            Some(name) => name?,
            None => self.last_segment(item, &from)?,
        };
        Some(Uri {
            from,
            name,
            sha256: match sha256 {
                Some(sum) => Some(sum?),
                None => None,
            },
            executable,
        })
    }

    fn address(&mut self, item: &Item<'_>) -> Option<String> {
        let text = self.text(item, FROM_HINT)?;
        let (scheme, rest) = text.split_once("://").unwrap_or(("", text));
        let scheme = scheme.to_ascii_lowercase();
        let (why, hint) = if text.len() > URI_BYTES_MAX {
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
                "http" if !rest.is_empty() && !rest.starts_with(['/', ':', '?', '#']) => {
                    return Some(text.to_owned());
                }
                "http" => ("has no host".to_owned(), FROM_HINT),
                "https" => {
                    let hint = "use http:// or file://, with `sha256` to verify the content";
                    (
                        "uses https, which Baton does not support yet".to_owned(),
                        hint,
                    )
                }
                _ => ("is neither file:// nor http://".to_owned(), FROM_HINT),
            }
        };
        self.note(item, Kind::BadValue, format!("{} {why}", quote(text)), hint);
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

    fn file_name(&mut self, item: &Item<'_>) -> Option<String> {
        let text = self.text(item, NAME_HINT)?;
        if let Some(why) = bad_name(text) {
            let message = format!("{} is not a plain file name: {why}", quote(text));
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
