//! Scan of the library directory.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use baton_files::Format;
use baton_model::library::{Definition, TaskName};

use super::ParsedFiles;
use crate::limits::{LIBRARY_DEPTH_MAX, LIBRARY_FILES_MAX};

/// What identifies a version of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileStamp {
    modified: Option<SystemTime>,
    bytes: u64,
}

/// Stamps by path within the directory.
pub(super) type FileStamps = BTreeMap<String, FileStamp>;

/// Finds all files that may define an entry, in the directory and below it. Hidden names are skipped:
/// editors and tools keep their own files there.
pub(super) fn scan(directory: &Path) -> io::Result<FileStamps> {
    let mut found = FileStamps::new();
    walk(directory, "", 0, &mut found)?;
    Ok(found)
}

fn walk(directory: &Path, above: &str, depth: usize, found: &mut FileStamps) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        // A name that is not UTF-8 cannot be a path of the library.
        let Ok(name) = entry.file_name().into_string() else {
            continue;
        };
        if name.starts_with('.') {
            continue;
        }
        let path = entry.path();
        // It may have been removed since.
        let Ok(about) = fs::metadata(&path) else {
            continue;
        };
        if about.is_dir() {
            if depth < LIBRARY_DEPTH_MAX {
                walk(&path, &format!("{above}{name}/"), depth + 1, found)?;
            }
        } else if Format::of(&path).is_some() {
            if found.len() >= LIBRARY_FILES_MAX {
                let text = format!("more than {LIBRARY_FILES_MAX} files");
                return Err(io::Error::other(text));
            }
            let stamp = FileStamp {
                modified: about.modified().ok(),
                bytes: about.len(),
            };
            found.insert(format!("{above}{name}"), stamp);
        }
    }
    Ok(())
}

/// Parses the files; unchanged ones are not read again.
pub(super) fn read(directory: &Path, found: FileStamps, known: &ParsedFiles) -> ParsedFiles {
    let mut read = ParsedFiles::new();
    for (file, stamp) in found {
        let parsed = match known.get(&file) {
            Some((before, parsed)) if *before == stamp => parsed.clone(),
            _ => definition(directory, &file),
        };
        read.insert(file, (stamp, parsed));
    }
    read
}

fn definition(directory: &Path, file: &str) -> Result<(TaskName, Arc<Definition>), String> {
    let made = baton_files::load_any(directory.join(file))
        .and_then(|entry| entry.definition(Some(file.to_owned())));
    match made {
        Ok((name, definition)) => Ok((name, Arc::new(definition))),
        Err(errors) => Err(errors.to_string()),
    }
}
