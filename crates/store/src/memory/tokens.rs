//! Tokens in memory.

use std::collections::BTreeMap;

use baton_model::ids::TokenId;
use baton_model::token::{NewToken, Token};

use crate::StoreError;
use crate::limits::TOKENS_MAX;

/// Tokens by number.
#[derive(Debug, Default)]
pub(super) struct Tokens {
    last: TokenId,
    tokens: BTreeMap<TokenId, Token>,
}

impl Tokens {
    /// Stores a token; if there are too many, the oldest invalid one is removed.
    pub(super) fn create(&mut self, new: &NewToken) -> Result<TokenId, StoreError> {
        if self.tokens.values().any(|token| token.hash == new.hash) {
            return Err(StoreError::Failed(
                "a token with this secret already exists".to_owned(),
            ));
        }
        if self.tokens.len() >= TOKENS_MAX {
            let mut dead = self
                .tokens
                .values()
                .filter(|it| !it.is_valid(new.created_at));
            let oldest = dead.next().map(|token| token.id);
            self.tokens
                .remove(&oldest.ok_or(StoreError::TooManyTokens)?);
        }
        self.last = self.last.next();
        let token = Token {
            id: self.last,
            name: new.name.clone(),
            role: new.role,
            owner: new.owner.clone(),
            hash: new.hash,
            created_at: new.created_at,
            expires_at: new.expires_at,
            revoked: false,
        };
        self.tokens.insert(self.last, token);
        Ok(self.last)
    }

    pub(super) fn all(&self) -> Vec<Token> {
        self.tokens.values().cloned().collect()
    }

    pub(super) fn revoke(&mut self, id: TokenId) -> Option<Token> {
        let token = self.tokens.get_mut(&id)?;
        token.revoked = true;
        Some(token.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::token::tests::too_many_tokens;

    #[test]
    fn with_too_many_tokens_the_oldest_invalid_one_is_removed() {
        let mut tokens = Tokens::default();
        too_many_tokens(&mut tokens, Tokens::create, Tokens::revoke, |it| it.all());
    }
}
