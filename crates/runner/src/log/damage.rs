//! The report about a log that is damaged in its middle.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DamageKind {
    /// The header fails its checksum.
    Header,
    NoRecord,
    /// A complete record, but not the next one in sequence.
    OutOfOrder {
        found: u64,
    },
}

/// What was done with the damaged file.
#[derive(Clone, Debug)]
pub enum Quarantine {
    /// It was only read.
    Untouched,
    /// Set aside under this name.
    Moved(PathBuf),
    /// It could not be set aside.
    Failed(Arc<io::Error>),
}

/// A log with something wrong in it and complete records after that.
#[derive(Clone, Debug)]
pub struct Damage {
    pub path: PathBuf,
    pub quarantine: Quarantine,
    pub kind: DamageKind,
    /// The first wrong byte, or the start of the record that holds it.
    pub offset: u64,
    /// The number of the record that should begin there.
    pub sequence: u64,
    /// Complete records before it.
    pub records_before: u64,
    /// Complete records after it.
    pub records_after: u64,
    /// The offset of the first of those.
    pub resumes_at: Option<u64>,
}

impl Damage {
    /// The current path of the file.
    #[must_use]
    pub fn file(&self) -> &Path {
        match &self.quarantine {
            Quarantine::Moved(to) => to,
            Quarantine::Untouched | Quarantine::Failed(_) => &self.path,
        }
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (path, offset, sequence) = (self.path.display(), self.offset, self.sequence);
        match self.kind {
            DamageKind::Header => write!(f, "{path} is damaged in its header")?,
            DamageKind::NoRecord => write!(
                f,
                "{path} is damaged at byte {offset}, where record {sequence} should begin"
            )?,
            DamageKind::OutOfOrder { found } => write!(
                f,
                "{path} is damaged at byte {offset}: record {found} is there instead of record {sequence}"
            )?,
        }
        write!(
            f,
            "; {} before that and {} after it",
            record_count(self.records_before),
            self.records_after
        )?;
        if let Some(resumes_at) = self.resumes_at {
            write!(f, ", from byte {resumes_at} on")?;
        }
        match &self.quarantine {
            Quarantine::Untouched => f.write_str(". The file was not changed.")?,
            Quarantine::Moved(to) => {
                write!(f, ". The file was set aside as {}.", to.display())?;
            }
            Quarantine::Failed(error) => {
                write!(
                    f,
                    ". The file could not be set aside and is unchanged: {error}."
                )?;
            }
        }
        write!(
            f,
            " A killed process does not do this: look for a loss of power, a failing disk, or \
             another program that wrote to the file. `baton local read {}` shows what comes before the \
             damage. To resume, restore a good copy as {path}, or run the task again under a new id.",
            self.file().display()
        )
    }
}

fn record_count(count: u64) -> String {
    match count {
        1 => "1 whole record".to_owned(),
        _ => format!("{count} whole records"),
    }
}
