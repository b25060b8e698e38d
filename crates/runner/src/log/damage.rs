//! The report about a log that is damaged in its middle.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DamageKind {
    /// The header is not as it was written.
    Header,
    /// The bytes are no record.
    NoRecord,
    /// A whole record is there, but not the one whose turn it is.
    OutOfOrder {
        /// Its number.
        found: u64,
    },
}

/// Where the damaged file is now.
#[derive(Clone, Debug)]
pub enum Quarantine {
    /// Where it was: it was only read.
    Untouched,
    /// Set aside under this name.
    Moved(PathBuf),
    /// Where it was: it could not be set aside.
    Failed(Arc<io::Error>),
}

/// A log with something wrong in it and whole records behind that.
#[derive(Clone, Debug)]
pub struct Damage {
    /// The log.
    pub path: PathBuf,
    /// Where the file is now.
    pub quarantine: Quarantine,
    pub kind: DamageKind,
    /// The first wrong byte, or the begin of the record that holds it.
    pub offset: u64,
    /// The number of the record that should begin there.
    pub sequence: u64,
    /// Whole records before it.
    pub records_before: u64,
    /// Whole records behind it.
    pub records_after: u64,
    /// Where the first of those begins.
    pub resumes_at: Option<u64>,
}

impl Damage {
    /// The file as it is called now.
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
            whole_records(self.records_before),
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
             somebody who wrote to the file. `baton local read {}` shows what comes before the \
             damage. To go on, put a good copy back as {path}, or run the task again under a new id.",
            self.file().display()
        )
    }
}

fn whole_records(count: u64) -> String {
    match count {
        1 => "1 whole record".to_owned(),
        _ => format!("{count} whole records"),
    }
}
