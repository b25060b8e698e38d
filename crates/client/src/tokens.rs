//! Tokens.

use baton_model::api::{CreatedToken, List, NewToken, Token};
use reqwest::Method;

use crate::Client;
use crate::error::ClientError;

impl Client {
    /// Creates a token. Only this response contains its secret.
    pub async fn create_token(&self, new: &NewToken) -> Result<CreatedToken, ClientError> {
        let url = self.transport.at(&["tokens", ""]);
        self.transport.change(Method::POST, url, Some(new)).await
    }

    /// All tokens, including expired and revoked ones.
    pub async fn tokens(&self) -> Result<Vec<Token>, ClientError> {
        let url = self.transport.at(&["tokens", ""]);
        let list: List<Token> = self.transport.get(url).await?;
        Ok(list.items)
    }

    /// Revokes a token.
    pub async fn revoke_token(&self, id: &str) -> Result<Token, ClientError> {
        let url = self.transport.at(&["tokens", id]);
        let no_body: Option<&()> = None;
        self.transport.change(Method::DELETE, url, no_body).await
    }
}
