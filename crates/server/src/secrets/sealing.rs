//! Encryption of one value: AES-256-GCM with a random nonce, bound to owner and name.
//!
//! A nonce that was used twice would tell the difference of two values. It has 96 random bits, so after four
//! billion values of one key that is less likely than one in four billion; a store has 10,000 secrets at most.

use baton_model::secret::{SecretName, SecretValue};
use ring::aead::{Aad, NONCE_LEN, Nonce};
use ring::rand::{SecureRandom as _, SystemRandom};

use super::keys::{Key, KeyError};

/// Encrypts a value. It can only be decrypted under the same owner and name: who can write the store cannot give
/// one secret the name of another.
pub(super) fn seal(
    key: &Key,
    owner: &str,
    name: &SecretName,
    value: &SecretValue,
) -> Result<Vec<u8>, KeyError> {
    let mut nonce = [0; NONCE_LEN];
    let filled = SystemRandom::new().fill(&mut nonce);
    filled.map_err(|_| KeyError::NoRandom)?;
    let mut sealed = value.expose().to_vec();
    let nonce_bytes = nonce;
    let nonce = Nonce::assume_unique_for_key(nonce);
    let done = key
        .key
        .seal_in_place_append_tag(nonce, bound_to(owner, name), &mut sealed);
    done.map_err(|_| KeyError::NoRandom)?;
    sealed.splice(0..0, nonce_bytes);
    Ok(sealed)
}

/// Decrypts a value; none if it was not encrypted with this key, under this owner and name.
pub(super) fn open(
    key: &Key,
    owner: &str,
    name: &SecretName,
    sealed: &[u8],
) -> Option<SecretValue> {
    let (nonce, text) = sealed.split_at_checked(NONCE_LEN)?;
    let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
    let mut text = text.to_vec();
    let opened = key
        .key
        .open_in_place(nonce, bound_to(owner, name), &mut text)
        .ok()?;
    let value = SecretValue::new(opened.to_vec()).ok();
    text.fill(0);
    value
}

/// No owner has a zero byte.
fn bound_to(owner: &str, name: &SecretName) -> Aad<Vec<u8>> {
    Aad::from([owner.as_bytes(), b"\0", name.as_str().as_bytes()].concat())
}
