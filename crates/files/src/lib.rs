//! The files people write: YAML, TOML or JSON in, a checked task or a list of
//! clear errors out.
//!
//! ```
//! use baton_files::{Binding, Format, parse};
//!
//! let file = parse(
//!     "task: hello\nparams: { who: world }\nrun: echo hello {{ params.who }}\n",
//!     Format::Yaml,
//!     "hello.yaml",
//! )?;
//! let task = file.bind(&Binding::default())?;
//! assert_eq!(task.processes[0].name.0, "hello");
//! # Ok::<(), baton_files::Errors>(())
//! ```
//!
//! A file goes through three steps, and each reports everything it finds:
//!
//! | step | module | knows |
//! |---|---|---|
//! | text to tree | `tree` | the three formats and their places |
//! | tree to [`TaskFile`] | `read`, `graph` | the schema, names, the order of processes |
//! | [`TaskFile`] to `TaskSpec` | `file`, `given`, `template` | parameters, ports, the task's id |
//! | the same to `InstanceSpec` | `instance` | what a scheduler is given, with its defaults |
//! | the same to [`Definition`] | `definition` | what a library keeps, with its templates open |
//!
//! Beside them: [`units`] (durations and sizes, for command lines too), [`Param`],
//! [`Policy`], [`Errors`], and [`limits`]. What a schedule means is `baton-core`'s `clock`,
//! which is asked while a file is read. The schema with its defaults stands in
//! `docs/decisions/0008-task-files.md`; what a task means once it is bound, in
//! `baton_model::task`. Nothing here runs anything or knows what time it is.

mod definition;
mod error;
mod file;
mod given;
mod graph;
mod instance;
pub mod limits;
mod param;
mod policy;
mod read;
mod source;
mod suggest;
mod template;
mod tree;
pub mod units;

use std::fs::File;
use std::io::Read;
use std::path::Path;

pub use error::{Errors, Kind, Position, Problem};
pub use file::{Binding, TaskFile};
pub use instance::DEFAULT_OWNER;
pub use param::{Param, ParamKind};
pub use policy::{Policy, Retry};

pub use baton_model::library::{Definition, TaskName, Trigger};

use error::{Place, quote};
use limits::FILE_BYTES_MAX;

/// How a file is written. The schema is the same for all.
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
    /// The format that the extension of a file names.
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

/// Reads and checks a task file.
///
/// # Errors
/// Everything that is wrong with it, including that it cannot be read.
pub fn load(path: impl AsRef<Path>) -> Result<TaskFile, Errors> {
    let path = path.as_ref();
    let name = path.display().to_string();
    let fail = |kind, message: String, mend: &str| {
        Errors::new(&name, vec![Place::default().problem(kind, message, mend)])
    };
    let format = Format::of(path).ok_or_else(|| {
        fail(
            Kind::UnknownFormat,
            "the name of the file does not tell its format".to_owned(),
            "name it .yaml, .yml, .toml or .json",
        )
    })?;
    let bytes = read(path).map_err(|error| {
        fail(
            Kind::Unreadable,
            format!("the file cannot be read: {error}"),
            "check its name and who may read it",
        )
    })?;
    parse_bytes(&bytes, format, &name)
}

/// Checks the text of a task file. `name` stands for the file in errors.
///
/// # Errors
/// Everything that is wrong with it.
pub fn parse(text: &str, format: Format, name: &str) -> Result<TaskFile, Errors> {
    if text.len() > FILE_BYTES_MAX {
        let problem = Place::default().problem(
            Kind::TooLarge,
            format!("the file has more than {FILE_BYTES_MAX} bytes"),
            "move data into files of their own, or make a workflow of several tasks",
        );
        return Err(Errors::new(name, vec![problem]));
    }
    tree::parse(text, format)
        .and_then(|root| read::task(&root, name))
        .map_err(|problems| Errors::new(name, problems))
}

/// Checks a task that came as JSON: over HTTP, or from [`TaskFile::to_json`]. `name`
/// stands for the file in errors, which know fields but no lines.
///
/// # Errors
/// Everything that is wrong with it.
pub fn from_json(value: &serde_json::Value, name: &str) -> Result<TaskFile, Errors> {
    source::tree(value)
        .and_then(|root| read::task(&root, name))
        .map_err(|problems| Errors::new(name, problems))
}

/// Like [`parse`], for bytes that may not be text.
///
/// # Errors
/// Everything that is wrong with them.
pub fn parse_bytes(bytes: &[u8], format: Format, name: &str) -> Result<TaskFile, Errors> {
    // The limit first: what is too large is not looked at.
    let text = match std::str::from_utf8(&bytes[..bytes.len().min(FILE_BYTES_MAX + 1)]) {
        Ok(text) => text,
        // Cut in the middle of a character by the limit, not by the writer.
        Err(error) if error.error_len().is_none() && bytes.len() > FILE_BYTES_MAX => {
            return parse(&" ".repeat(FILE_BYTES_MAX + 1), format, name);
        }
        Err(error) => return Err(not_utf8(bytes, error.valid_up_to(), name)),
    };
    parse(text, format, name)
}

fn not_utf8(bytes: &[u8], at: usize, name: &str) -> Errors {
    let before = String::from_utf8_lossy(&bytes[..at]);
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or("").chars().count() + 1;
    let place = Place {
        path: String::new(),
        position: u32::try_from(line)
            .ok()
            .zip(u32::try_from(column).ok())
            .map(|(line, column)| Position { line, column }),
    };
    let byte = bytes.get(at).copied().unwrap_or_default();
    let problem = place.problem(
        Kind::NotUtf8,
        format!(
            "the file is not UTF-8: {} stands here",
            quote(&format!("0x{byte:02x}"))
        ),
        "save the file as UTF-8",
    );
    Errors::new(name, vec![problem])
}

/// One byte more than allowed at most, so that a device without end ends.
fn read(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let limit = u64::try_from(FILE_BYTES_MAX).unwrap_or(u64::MAX) + 1;
    File::open(path)?.take(limit).read_to_end(&mut bytes)?;
    Ok(bytes)
}
