//! The time zone data of a command: a directory that it names, that of the host, or the built-in
//! copy.
//!
//! A directory is read once, before the first schedule is parsed, and as a whole, so that an update of
//! the host's package does not change the zones of a running scheduler.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use baton_tzdata::{BUILT_IN, Database, Release};
use clap::Args;

use crate::output::Failure;

/// The variable for a scheduler that another command starts, such as `baton run`.
const VARIABLE: &str = "BATON_TZDATA";

/// The directory of the host.
const SYSTEM: &str = "/usr/share/zoneinfo";

/// Copies in other forms: `right` counts leap seconds.
const OTHER_FORMS: &[&str] = &["posix", "right"];

/// Levels of directories: America/Argentina/Ushuaia.
const DEPTH_MAX: usize = 3;

/// Bytes of the rules of a zone. The largest ones have 4 kB.
const RULES_BYTES_MAX: u64 = 256 * 1024;

#[derive(Clone, Debug, Default, Args)]
pub(crate) struct TzdataArgs {
    /// Time zone data: a directory of TZif files, or built-in [default: $BATON_TZDATA, or
    /// /usr/share/zoneinfo, or built-in if there is none]
    #[arg(long, value_name = "DIR")]
    tzdata: Option<PathBuf>,
}

impl TzdataArgs {
    /// Loads the time zone data of this process.
    pub(crate) fn load(&self) -> Result<Release, Failure> {
        load(self.tzdata.clone())
    }
}

fn load(directory: Option<PathBuf>) -> Result<Release, Failure> {
    let variable = || std::env::var_os(VARIABLE).map(PathBuf::from);
    let named = directory.or_else(variable);
    let database = match named {
        Some(name) if name == Path::new(BUILT_IN) => None,
        Some(directory) => match read(&directory) {
            Ok(database) if !database.is_empty() => Some(database),
            Ok(_) => {
                let directory = directory.display();
                return Err(Failure::usage(format!(
                    "{directory} has no time zone data\n  hint: name a directory of TZif files such \
                     as {SYSTEM}, or built-in"
                )));
            }
            Err(error) => {
                let directory = directory.display();
                return Err(Failure::usage(format!(
                    "cannot read the time zone data in {directory}: {error}\n  hint: name a directory \
                     of TZif files such as {SYSTEM}, or built-in"
                )));
            }
        },
        None => read(Path::new(SYSTEM))
            .ok()
            .filter(|database| !database.is_empty()),
    };
    // Set already: a command that starts another one in this process.
    let _ = baton_tzdata::install(database);
    Ok(baton_tzdata::release())
}

fn read(directory: &Path) -> io::Result<Database> {
    let source = directory.display().to_string();
    let mut database = Database::new(source, version(directory));
    add_zones(&mut database, directory, "", DEPTH_MAX)?;
    Ok(database)
}

/// The version, as the files beside the zones state it.
fn version(directory: &Path) -> Option<String> {
    let first_line = |name: &str| {
        let text = fs::read(directory.join(name)).ok()?;
        let line = text.split(|byte| *byte == b'\n').next()?;
        String::from_utf8(line.to_vec()).ok()
    };
    let of_source =
        first_line("tzdata.zi").and_then(|line| line.strip_prefix("# version ").map(str::to_owned));
    let version = of_source.or_else(|| first_line("+VERSION"))?;
    let version = version.trim();
    (!version.is_empty() && version.len() < 40).then(|| version.to_owned())
}

fn add_zones(
    database: &mut Database,
    directory: &Path,
    prefix: &str,
    depth: usize,
) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let Ok(name) = entry.file_name().into_string() else {
            continue;
        };
        let path = entry.path();
        // Names may be links to others.
        let Ok(metadata) = fs::metadata(&path) else {
            continue;
        };
        let name = format!("{prefix}{name}");
        if metadata.is_dir() {
            if depth > 1 && !OTHER_FORMS.contains(&name.as_str()) {
                add_zones(database, &path, &format!("{name}/"), depth - 1)?;
            }
        } else if metadata.is_file() && metadata.len() <= RULES_BYTES_MAX {
            database.add(&name, fs::read(&path)?);
        }
    }
    Ok(())
}
