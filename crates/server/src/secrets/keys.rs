//! Keys for secrets: a file with one in each line, of which the first encrypts and all decrypt.

use std::fmt;
use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use baton_model::hex::hex;
use ring::aead::{AES_256_GCM, LessSafeKey, UnboundKey};
use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom as _, SystemRandom};

/// The credential of the service manager that may have the keys.
const CREDENTIAL: &str = "baton-secret-key";
/// Bytes of a key.
const KEY_BYTES: usize = 32;
/// Keys in one file.
const KEYS_MAX: usize = 64;
/// Digits of the id of a key.
const ID_DIGITS: usize = 12;

/// How to get a key.
pub const KEY_HINT: &str = "make one with `baton secret key >FILE`, and start each scheduler of the store with --secret-key FILE";

/// Why there are no keys.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    #[error("there is no key for secrets; {KEY_HINT}")]
    NoFile,
    #[error("the keys of secrets in {place} cannot be used: {reason}")]
    Unusable { place: String, reason: String },
    #[error("a secret is encrypted with the key {key}, which is not in {place}; add it there")]
    Unknown { key: String, place: String },
    #[error("no random numbers can be had")]
    NoRandom,
}

/// A new key, as a line of a file of keys.
///
/// # Errors
/// If the system has no random numbers.
pub fn new_key() -> Result<String, KeyError> {
    let mut bytes = [0; KEY_BYTES];
    let filled = SystemRandom::new().fill(&mut bytes);
    filled.map_err(|_| KeyError::NoRandom)?;
    Ok(hex(bytes))
}

/// One key.
pub(super) struct Key {
    /// Tells keys apart, and tells nothing about them.
    pub(super) id: String,
    pub(super) key: LessSafeKey,
}

impl Key {
    fn parse(line: &str) -> Option<Self> {
        if line.len() != 2 * KEY_BYTES || !line.bytes().all(|it| it.is_ascii_hexdigit()) {
            return None;
        }
        let digits = line.as_bytes().chunks(2);
        let bytes = digits.map(|pair| u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok());
        let bytes: Vec<u8> = bytes.collect::<Option<_>>()?;
        let mut named = b"id of a key for secrets of Baton: ".to_vec();
        named.extend_from_slice(&bytes);
        let id = hex(digest(&SHA256, &named).as_ref());
        Some(Self {
            id: id[..ID_DIGITS].to_owned(),
            key: LessSafeKey::new(UnboundKey::new(&AES_256_GCM, &bytes).ok()?),
        })
    }
}

/// The keys of a file; at least one.
pub(super) struct Keyring(Vec<Key>);

impl Keyring {
    fn parse(text: &str) -> Result<Self, String> {
        let mut keys = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            // The line is not repeated: it may be a key with a slip of the pen.
            let wrong = || {
                format!(
                    "line {} is not a key of 64 hexadecimal digits; {KEY_HINT}",
                    index + 1
                )
            };
            keys.push(Key::parse(line).ok_or_else(wrong)?);
        }
        match keys.len() {
            0 => Err(format!("it has no key; {KEY_HINT}")),
            count if count > KEYS_MAX => Err(format!("it has more than {KEYS_MAX} keys")),
            _ => Ok(Self(keys)),
        }
    }

    /// The key that encrypts.
    pub(super) fn current(&self) -> &Key {
        &self.0[0]
    }

    pub(super) fn get(&self, id: &str) -> Option<&Key> {
        self.0.iter().find(|key| key.id == id)
    }
}

/// A file of keys, or none yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum KeyPlace {
    /// In a file of the operator, or of the service manager.
    File(PathBuf),
    /// In a file of this scheduler, which it creates with the first secret.
    Own(PathBuf),
    /// Nowhere yet: several schedulers share the store, and none can choose for the others.
    Nowhere,
}

impl fmt::Display for KeyPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) | Self::Own(path) => path.display().fmt(f),
            Self::Nowhere => f.write_str("any file"),
        }
    }
}

impl KeyPlace {
    /// `own` is the file of a scheduler that shares its store with no other.
    pub(super) fn find(named: Option<PathBuf>, own: Option<PathBuf>) -> Self {
        let credentials = std::env::var_os("CREDENTIALS_DIRECTORY").map(PathBuf::from);
        let credential = credentials.map(|dir| dir.join(CREDENTIAL));
        let given = named.or_else(|| credential.filter(|path| path.exists()));
        match (given, own) {
            (Some(path), _) => Self::File(path),
            (None, Some(path)) => Self::Own(path),
            (None, None) => Self::Nowhere,
        }
    }

    /// Reads the keys; none if there are none yet.
    pub(super) fn load(&self) -> Result<Option<Keyring>, KeyError> {
        match self {
            Self::File(path) => self.read(path).map(Some),
            Self::Own(path) if path.exists() => self.read(path).map(Some),
            Self::Own(_) | Self::Nowhere => Ok(None),
        }
    }

    /// Creates the file of this scheduler, with a key.
    pub(super) fn create(&self) -> Result<Keyring, KeyError> {
        let Self::Own(path) = self else {
            return Err(KeyError::NoFile);
        };
        let key = new_key()?;
        match write_new(path, &key) {
            // Another request was first.
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(self.unusable(error.to_string()));
            }
            _ => {}
        }
        tracing::info!(
            "created the key for secrets in {}; keep a copy of it apart from the backups of the store",
            path.display()
        );
        self.read(path)
    }

    fn read(&self, path: &Path) -> Result<Keyring, KeyError> {
        let text = fs::read_to_string(path).map_err(|error| self.unusable(error.to_string()))?;
        if fs::metadata(path).is_ok_and(|it| it.permissions().mode() & 0o007 != 0) {
            tracing::warn!(
                "every user may read the keys of secrets in {}; `chmod 600` it",
                path.display()
            );
        }
        Keyring::parse(&text).map_err(|reason| self.unusable(reason))
    }

    fn unusable(&self, reason: String) -> KeyError {
        KeyError::Unusable {
            place: self.to_string(),
            reason,
        }
    }
}

/// Writes a file that was not there, durably: what is encrypted with a lost key is lost.
fn write_new(path: &Path, key: &str) -> io::Result<()> {
    let temporary = path.with_extension("new");
    // Left by a scheduler that died here.
    let _ = fs::remove_file(&temporary);
    let mut options = fs::OpenOptions::new();
    let mut file = options
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&temporary)?;
    writeln!(file, "{key}")?;
    file.sync_all()?;
    // Fails if the file is there by now.
    let linked = fs::hard_link(&temporary, path);
    fs::remove_file(&temporary)?;
    linked?;
    match path.parent() {
        Some(parent) => fs::File::open(parent)?.sync_all(),
        None => Ok(()),
    }
}
