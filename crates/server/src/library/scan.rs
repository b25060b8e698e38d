//! Scan of the library directory.
//!
//! Its files come from a deployment or a checkout, whose author need not have the rights of the
//! scheduler. So only regular files are read, links are followed within the directory only, and of a file that
//! is no definition no content appears in an error.

use std::collections::BTreeMap;
use std::io::{self, Read as _};
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use baton_files::Format;
use baton_files::limits::FILE_BYTES_MAX;
use baton_fs::enclosure::{Enclosure, EnclosureError, Member};
use baton_model::library::{Definition, TaskName};

use super::ParsedFiles;
use super::pending::Place;
use crate::limits::{LIBRARY_DEPTH_MAX, LIBRARY_FILES_MAX};

/// One text for both: whether a file outside exists is not for the author of a link.
const OUTSIDE: &str = "a link that leads to nothing, or out of the library directory; copy the file into the \
                       directory, or link to a file within it";

const NO_DEFINITION: &str = "neither a task nor a workflow: it has none of the fields `task`, `run`, `processes`, \
                             `workflow` and `tasks`; `baton check FILE` tells more";

/// What identifies a version of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileStamp {
    modified: Option<SystemTime>,
    bytes: u64,
}

/// Stamps by path within the directory, or why there is none.
type FoundFiles = BTreeMap<String, Result<FileStamp, String>>;

/// Finds all files that may define an entry, in the directory and below it, and parses those that have
/// changed. Hidden names are skipped: editors and tools keep their own files there.
pub(super) fn scan(
    directory: &Path,
    known: &ParsedFiles,
    place: &Place,
) -> io::Result<ParsedFiles> {
    let mut walk = Walk {
        enclosure: Enclosure::open(directory)?,
        found: FoundFiles::new(),
        place,
    };
    let top = walk.enclosure.find(".").map_err(io::Error::other)?;
    walk.directory(&top, "", 0)?;
    let Walk {
        enclosure, found, ..
    } = walk;
    let mut read = ParsedFiles::new();
    for (file, stamp) in found {
        let parsed = match (&stamp, known.get(&file)) {
            (Err(text), _) => Err(text.clone()),
            (Ok(stamp), Some((Some(before), parsed))) if before == stamp => parsed.clone(),
            (Ok(_), _) => {
                place.set(&file);
                definition(&enclosure, directory, &file)
            }
        };
        read.insert(file, (stamp.ok(), parsed));
    }
    Ok(read)
}

struct Walk<'a> {
    enclosure: Enclosure,
    found: FoundFiles,
    place: &'a Place,
}

impl Walk<'_> {
    fn directory(&mut self, directory: &Member, above: &str, depth: usize) -> io::Result<()> {
        for entry in directory.entries()? {
            let entry = entry?;
            // A name that is not UTF-8 cannot be a path of the library.
            let Ok(name) = entry.file_name().into_string() else {
                continue;
            };
            if name.starts_with('.') {
                continue;
            }
            let path = format!("{above}{name}");
            self.place.set(&path);
            let has_format = Format::of(Path::new(&name)).is_some();
            match self.enclosure.find(&path) {
                Ok(found) if found.metadata().is_dir() => {
                    if depth < LIBRARY_DEPTH_MAX {
                        self.directory(&found, &format!("{path}/"), depth + 1)?;
                    }
                }
                Ok(found) if has_format => {
                    let stamp = FileStamp {
                        modified: found.metadata().modified().ok(),
                        bytes: found.metadata().len(),
                    };
                    self.add(path, Ok(stamp))?;
                }
                Err(EnclosureError::Outside { is_dir }) if is_dir || has_format => {
                    self.add(path, Err(OUTSIDE.to_owned()))?;
                }
                Err(EnclosureError::Io(error)) if has_format => {
                    if entry.file_type().is_ok_and(|it| it.is_symlink()) {
                        self.add(path, Err(OUTSIDE.to_owned()))?;
                    } else if error.kind() != io::ErrorKind::NotFound {
                        self.add(path, Err(unreadable(&error)))?;
                    }
                }
                // Of no interest, or removed since.
                Ok(_) | Err(_) => {}
            }
        }
        Ok(())
    }

    fn add(&mut self, path: String, stamp: Result<FileStamp, String>) -> io::Result<()> {
        if self.found.len() >= LIBRARY_FILES_MAX {
            let text = format!("more than {LIBRARY_FILES_MAX} files");
            return Err(io::Error::other(text));
        }
        self.found.insert(path, stamp);
        Ok(())
    }
}

fn definition(
    enclosure: &Enclosure,
    directory: &Path,
    file: &str,
) -> Result<(TaskName, Arc<Definition>), String> {
    let path = directory.join(file);
    let format = Format::of(&path).ok_or_else(|| NO_DEFINITION.to_owned())?;
    let bytes = read(enclosure, file)?;
    let made = baton_files::parse_any(&bytes, format, &path.display().to_string())
        .and_then(|entry| entry.definition(Some(file.to_owned())));
    match made {
        Ok((name, definition)) => Ok((name, Arc::new(definition))),
        Err(errors) if baton_files::resembles_definition(&bytes) => Err(errors.to_string()),
        Err(_) => Err(NO_DEFINITION.to_owned()),
    }
}

/// Reads a file up to the limit of an entry.
fn read(enclosure: &Enclosure, file: &str) -> Result<Vec<u8>, String> {
    let found = match enclosure.find(file) {
        Ok(found) => found,
        Err(EnclosureError::Outside { .. }) => return Err(OUTSIDE.to_owned()),
        Err(EnclosureError::Io(error)) => return Err(unreadable(&error)),
    };
    let limit = u64::try_from(FILE_BYTES_MAX).unwrap_or(u64::MAX);
    let mut bytes = Vec::new();
    let opened = found.open().map_err(|error| unreadable(&error))?;
    if opened.metadata().map_or(0, |it| it.len()) <= limit {
        let taken = opened.take(limit + 1).read_to_end(&mut bytes);
        taken.map_err(|error| unreadable(&error))?;
        if bytes.len() <= FILE_BYTES_MAX {
            return Ok(bytes);
        }
    }
    Err(format!(
        "it has more than {FILE_BYTES_MAX} bytes, the limit of a library entry; submit larger workflows"
    ))
}

fn unreadable(error: &io::Error) -> String {
    format!("it cannot be read: {error}")
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;

    use rustix::fs::{CWD, Mode, mkfifoat};

    use super::*;

    const TASK: &str = "task: good\nrun: 'true'\n";

    fn scan_all(directory: &Path) -> BTreeMap<String, Result<String, String>> {
        let read = scan(directory, &ParsedFiles::new(), &Place::default()).expect("readable");
        let parsed = read.into_iter().map(|(file, (_, parsed))| {
            let parsed = parsed.map(|(name, _)| name.to_string());
            (file, parsed)
        });
        parsed.collect()
    }

    #[test]
    fn only_regular_files_within_the_directory_are_read() {
        let parent = tempfile::tempdir().expect("a directory");
        let library = parent.path().join("library");
        let at = |name: &str| library.join(name);
        fs::create_dir_all(at(".data/team")).expect("made");
        fs::write(at(".data/a.yaml"), TASK).expect("written");
        fs::write(at(".data/team/b.yaml"), TASK).expect("written");
        fs::write(parent.path().join("c.yaml"), TASK).expect("written");
        fs::write(at("large.yaml"), vec![b'#'; FILE_BYTES_MAX + 1]).expect("written");
        // As Kubernetes mounts a ConfigMap.
        symlink(".data/a.yaml", at("a.yaml")).expect("made");
        symlink(".data/team", at("team")).expect("made");
        symlink("../c.yaml", at("out.yaml")).expect("made");
        symlink("../missing.yaml", at("missing.yaml")).expect("made");
        symlink(parent.path(), at("folder")).expect("made");
        symlink("/dev/zero", at("zero.yaml")).expect("made");
        symlink("/proc/kmsg", at("kmsg.yaml")).expect("made");
        mkfifoat(CWD, at("pipe.yaml"), Mode::RUSR | Mode::WUSR).expect("made");
        let _socket = UnixListener::bind(at("socket.yaml")).expect("bound");
        let found = scan_all(&library);
        let errors = found.iter().filter_map(|(file, it)| {
            let text = it.as_ref().err()?.split(';').next()?;
            Some((file.as_str(), text))
        });
        let (outside, _) = OUTSIDE.split_once(';').expect("with a hint");
        let unreadable = "it cannot be read: not a regular file but a";
        assert_eq!(
            errors.collect::<Vec<_>>(),
            [
                ("folder", outside),
                ("kmsg.yaml", outside),
                (
                    "large.yaml",
                    "it has more than 1048576 bytes, the limit of a library entry"
                ),
                ("missing.yaml", outside),
                ("out.yaml", outside),
                ("pipe.yaml", &*format!("{unreadable} named pipe")),
                ("socket.yaml", &*format!("{unreadable} socket")),
                ("zero.yaml", outside),
            ]
        );
        for file in ["a.yaml", "team/b.yaml"] {
            assert!(found[file].as_ref().is_ok_and(|it| it.ends_with("good")));
        }
    }

    #[test]
    fn no_error_shows_the_content_of_another_kind_of_file() {
        let library = tempfile::tempdir().expect("a directory");
        let secrets = [
            (
                "shadow",
                "yaml",
                "root:*:20228:0:99999:7::\nann:$y$j9T$k:1::\n",
            ),
            ("key", "yaml", "-----BEGIN KEY-----\n\tMC4CAQAwBQ\n"),
            ("tag", "yaml", "!s3cret value\n"),
            ("anchor", "yaml", "*s3cret\n"),
            ("twice", "yaml", "s3cret: 1\ns3cret: 2\n"),
            ("table", "toml", "s3cret = 1\ns3cret = 2\n"),
            ("object", "json", "{\"s3cret\": 1, \"s3cret\": 2}"),
        ];
        for (name, format, text) in secrets {
            let path = library.path().join(format!("{name}.{format}"));
            fs::write(path, text).expect("written");
        }
        let found = scan_all(library.path());
        assert_eq!(found.len(), secrets.len());
        for (file, parsed) in found {
            assert_eq!(parsed, Err(NO_DEFINITION.to_owned()), "{file}");
        }
        // The author of a definition is told what is wrong with it.
        fs::write(library.path().join("a.yaml"), "task: a\nrum: 'true'\n").expect("written");
        let text = scan_all(library.path()).remove("a.yaml").expect("found");
        assert!(text.is_err_and(|text| text.contains("rum")));
    }
}
