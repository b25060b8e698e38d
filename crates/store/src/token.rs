//! Secrets of tokens: generation and hashing.
//!
//! A secret has 256 random bits, so a plain SHA-256 reveals nothing: a slow hash would protect
//! against guessing, and there is nothing to guess. For the same reason hashes need no
//! constant-time comparison: an attacker who measures the timing learns about the hash of the
//! secret they sent, which they cannot steer.

use std::io;

use baton_model::token::{Secret, SecretHash};
use sha2::{Digest as _, Sha256};

/// Generates a secret.
///
/// # Errors
/// If the kernel provides no random bits.
pub fn generate() -> io::Result<Secret> {
    let mut bits = [0; 32];
    getrandom::fill(&mut bits)?;
    Ok(Secret::from_bits(bits))
}

/// The hash under which a secret is stored.
#[must_use]
pub fn hash(secret: &Secret) -> SecretHash {
    SecretHash(Sha256::digest(secret.expose()).into())
}

#[cfg(test)]
pub(crate) mod tests {
    use baton_model::ids::TokenId;
    use baton_model::time::Wall;
    use baton_model::token::{NewToken, Role, Token};

    use super::*;
    use crate::StoreError;
    use crate::limits::TOKENS_MAX;

    /// Checks that the oldest invalid token is removed when there are too many. Each backend calls
    /// it below its commit path, because ten thousand commits take long.
    pub(crate) fn too_many_tokens<H>(
        held: &mut H,
        create: fn(&mut H, &NewToken) -> Result<TokenId, StoreError>,
        revoke: fn(&mut H, TokenId) -> Option<Token>,
        all: fn(&mut H) -> Vec<Token>,
    ) {
        let new = |number: usize, created_at, expires_at| {
            let mut hash = [0; 32];
            hash[..8].copy_from_slice(&number.to_le_bytes());
            NewToken {
                name: String::new(),
                role: Role::Viewer,
                owner: None,
                fleet: None,
                hash: SecretHash(hash),
                created_at: Wall(created_at),
                expires_at,
            }
        };
        for number in 1..=TOKENS_MAX {
            let expires_at = (number == 2 || number == 5).then_some(Wall(1_500));
            create(held, &new(number, 1_000, expires_at)).expect("not too many yet");
        }
        revoke(held, TokenId(4)).expect("there");
        for (gone, number) in [(2, 1), (4, 2), (5, 3)] {
            let number = TOKENS_MAX + number;
            let id = create(held, &new(number, 1_500, None)).expect("one goes");
            assert_eq!(id, TokenId(number as u64), "no id is used again");
            let left = all(held);
            assert_eq!(left.len(), TOKENS_MAX);
            assert!(left.iter().all(|token| token.id != TokenId(gone)));
        }
        let refused = create(held, &new(TOKENS_MAX + 4, 1_500, None));
        assert_eq!(refused, Err(StoreError::TooManyTokens));
        assert_eq!(all(held).len(), TOKENS_MAX);
    }

    #[test]
    fn no_secret_is_generated_twice_and_each_has_its_hash() {
        let (one, two) = (
            generate().expect("random bits"),
            generate().expect("random bits"),
        );
        assert_ne!(one, two);
        assert_ne!(hash(&one), hash(&two));
        assert_eq!(hash(&one), hash(&one.clone()));
    }

    #[test]
    fn the_hash_is_sha_256_of_the_text() {
        let secret = Secret::from_bits([0; 32]);
        let start = hash(&secret).0[..4].to_vec();
        assert_eq!(
            start,
            Sha256::digest(format!("baton_{}", "0".repeat(64)))[..4]
        );
    }
}
