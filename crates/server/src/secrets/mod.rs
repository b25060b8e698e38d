//! Secrets: named values of owners, which only the worker that holds the lease of an attempt is sent.
//!
//! ```text
//!   leader ──grant──▶ courier ──▶ store (encrypted) │ file │ environment │ command
//!   driver ◀──values──┘
//!      └──▶ the worker's connection, if it is private
//! ```
//!
//! | file | holds |
//! |---|---|
//! | [`keys`] | the keys, from a file |
//! | [`sealing`] | encryption of one value |
//! | [`sources`] | values that are kept elsewhere |
//! | [`courier`] | the thread that finds the values of attempts |
//!
//! No value is in a fact, in an answer of the API, or in a log of the scheduler; the store has it encrypted, and the
//! key is not in the store.

pub(crate) mod courier;
mod keys;
mod sealing;
pub(crate) mod sources;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};

use baton_model::secret::{SealedSecret, SecretName, SecretSource, SecretValue, StoredSecret};
use baton_model::time::Wall;
use baton_store::secret::{Change, SecretChange};
use baton_store::{Store, StoreError};

pub use keys::{KEY_HINT, KeyError, new_key};
use keys::{KeyPlace, Keyring};

/// Settings of the secrets of a scheduler.
#[derive(Clone, Debug, Default)]
pub struct SecretSettings {
    /// The file of keys. Without it, that of the service manager, or one in the data directory.
    pub key_file: Option<PathBuf>,
    /// Secrets that are kept elsewhere.
    pub sources: Vec<SecretSource>,
    /// Send them also over connections that are neither encrypted nor within this host.
    pub allow_plain: bool,
}

/// Why a secret cannot be set, read or encrypted again.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SecretError {
    #[error(
        "there is no secret `{name}` of {owner}; set it with `baton secret set {owner}/{name}`"
    )]
    Missing { owner: String, name: SecretName },
    #[error(transparent)]
    Key(#[from] KeyError),
    /// It is not the value that was encrypted under this name.
    #[error("the stored secret {owner}/{name} is damaged; set it again")]
    Damaged { owner: String, name: SecretName },
    /// Of a value that is kept elsewhere.
    #[error("the secret `{name}` cannot be read from its {kind}: {reason}")]
    Source {
        name: SecretName,
        kind: &'static str,
        reason: String,
    },
    #[error(
        "the secret {owner}/{name} is kept in a {kind}, as the scheduler's --secrets-file says"
    )]
    Elsewhere {
        owner: String,
        name: SecretName,
        kind: &'static str,
    },
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The secrets of a scheduler.
pub(crate) struct Secrets {
    store: Arc<dyn Store>,
    place: KeyPlace,
    keys: RwLock<Option<Arc<Keyring>>>,
    pub(crate) sources: Vec<SecretSource>,
    pub(crate) allow_plain: bool,
}

/// The numbers of a change of keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Resealed {
    pub(crate) changed: u64,
    pub(crate) unchanged: u64,
    /// The key that all of them are encrypted with now.
    pub(crate) key: String,
}

impl Secrets {
    /// Opens the secrets of a store. Keys that are named and cannot be read are an error at once.
    pub(crate) fn open(
        store: Arc<dyn Store>,
        settings: &SecretSettings,
        own_key: Option<PathBuf>,
    ) -> Result<Self, KeyError> {
        let place = KeyPlace::find(settings.key_file.clone(), own_key);
        let keys = place.load()?;
        Ok(Self {
            store,
            place,
            keys: RwLock::new(keys.map(Arc::new)),
            sources: settings.sources.clone(),
            allow_plain: settings.allow_plain,
        })
    }

    #[cfg(test)]
    pub(crate) fn for_tests(store: Arc<dyn Store>) -> Arc<Self> {
        let settings = SecretSettings::default();
        Arc::new(Self::open(store, &settings, None).expect("no keys are named"))
    }

    /// The secret that is kept elsewhere under this name.
    pub(crate) fn source(&self, owner: &str, name: &SecretName) -> Option<&SecretSource> {
        let mut sources = self.sources.iter();
        sources.find(|it| it.name == *name && it.owner.as_deref().is_none_or(|of| of == owner))
    }

    /// Stores a value; returns the secret as it is now.
    pub(crate) fn set(
        &self,
        owner: &str,
        name: &SecretName,
        value: &SecretValue,
        at: Wall,
        by: Option<String>,
    ) -> Result<StoredSecret, SecretError> {
        if let Some(source) = self.source(owner, name) {
            return Err(SecretError::Elsewhere {
                owner: owner.to_owned(),
                name: name.clone(),
                kind: source.from.word(),
            });
        }
        let keys = match self.keys() {
            Some(keys) => keys,
            None => self.replace_keys(self.place.create()?),
        };
        let key = keys.current();
        let change = Change::Set {
            sealed: sealing::seal(key, owner, name, value)?,
            key: key.id.clone(),
            at,
            by,
        };
        let stored = self.change(owner, name, change)?;
        stored.ok_or_else(|| missing(owner, name))
    }

    /// Removes a value; returns the secret as it was.
    pub(crate) fn remove(
        &self,
        owner: &str,
        name: &SecretName,
    ) -> Result<StoredSecret, SecretError> {
        let removed = self.change(owner, name, Change::Removed)?;
        removed.ok_or_else(|| missing(owner, name))
    }

    /// The value that the store has.
    pub(crate) fn stored_value(
        &self,
        owner: &str,
        name: &SecretName,
    ) -> Result<SecretValue, SecretError> {
        let sealed = self.store.sealed_secret(owner, name)?;
        let sealed = sealed.ok_or_else(|| missing(owner, name))?;
        self.open_sealed(&sealed)
    }

    /// Records that a value was sent to a worker.
    pub(crate) fn note_use(
        &self,
        owner: &str,
        name: &SecretName,
        at: Wall,
    ) -> Result<(), SecretError> {
        self.change(owner, name, Change::Used { at }).map(drop)
    }

    /// Reads the file of keys again, and encrypts with its first key what is encrypted with another.
    pub(crate) fn rekey(&self) -> Result<Resealed, SecretError> {
        let loaded = self.place.load()?;
        let keys = self.replace_keys(loaded.ok_or(KeyError::NoFile)?);
        let key = keys.current();
        let mut resealed = Resealed {
            key: key.id.clone(),
            ..Resealed::default()
        };
        for sealed in self.store.sealed_secrets()? {
            let SealedSecret { secret, .. } = &sealed;
            if secret.key == key.id {
                resealed.unchanged += 1;
                continue;
            }
            let value = self.open_sealed(&sealed)?;
            let change = Change::Resealed {
                version: secret.version,
                sealed: sealing::seal(key, &secret.owner, &secret.name, &value)?,
                key: key.id.clone(),
            };
            self.change(&secret.owner, &secret.name, change)?;
            resealed.changed += 1;
        }
        Ok(resealed)
    }

    fn open_sealed(&self, sealed: &SealedSecret) -> Result<SecretValue, SecretError> {
        let SealedSecret { secret, sealed } = sealed;
        let known = |keys: &Arc<Keyring>| keys.get(&secret.key).is_some();
        let keys = match self.keys().filter(known) {
            Some(keys) => keys,
            // Another scheduler may have begun to use a key that was added to the file.
            None => self.replace_keys(self.place.load()?.ok_or(KeyError::NoFile)?),
        };
        let key = keys.get(&secret.key).ok_or_else(|| KeyError::Unknown {
            key: secret.key.clone(),
            place: self.place.to_string(),
        })?;
        let value = sealing::open(key, &secret.owner, &secret.name, sealed);
        value.ok_or_else(|| SecretError::Damaged {
            owner: secret.owner.clone(),
            name: secret.name.clone(),
        })
    }

    fn keys(&self) -> Option<Arc<Keyring>> {
        let keys = self.keys.read().unwrap_or_else(PoisonError::into_inner);
        keys.clone()
    }

    fn replace_keys(&self, keys: Keyring) -> Arc<Keyring> {
        let keys = Arc::new(keys);
        let mut held = self.keys.write().unwrap_or_else(PoisonError::into_inner);
        *held = Some(Arc::clone(&keys));
        keys
    }

    fn change(
        &self,
        owner: &str,
        name: &SecretName,
        change: Change,
    ) -> Result<Option<StoredSecret>, SecretError> {
        let owner = owner.to_owned();
        let name = name.clone();
        Ok(self.store.change_secret(SecretChange {
            owner,
            name,
            change,
        })?)
    }
}

fn missing(owner: &str, name: &SecretName) -> SecretError {
    SecretError::Missing {
        owner: owner.to_owned(),
        name: name.clone(),
    }
}
