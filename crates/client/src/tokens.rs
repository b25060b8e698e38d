//! Credentials.

use baton_model::api::{CreatedToken, List, NewToken, Token};
use reqwest::Method;

use crate::Client;
use crate::error::ClientError;

impl Client {
    /// Makes a token. The answer is the only place where its secret is told.
    ///
    /// # Errors
    /// As [`ClientError`] says.
    pub async fn create_token(&self, new: &NewToken) -> Result<CreatedToken, ClientError> {
        let url = self.transport.at(&["tokens", ""]);
        self.transport.change(Method::POST, url, Some(new)).await
    }

    /// Every token, also those that are worth nothing any more.
    ///
    /// # Errors
    /// As [`ClientError`] says.
    pub async fn tokens(&self) -> Result<Vec<Token>, ClientError> {
        let url = self.transport.at(&["tokens", ""]);
        let list: List<Token> = self.transport.get(url).await?;
        Ok(list.items)
    }

    /// Makes a token worth nothing.
    ///
    /// # Errors
    /// As [`ClientError`] says.
    pub async fn revoke_token(&self, id: &str) -> Result<Token, ClientError> {
        let url = self.transport.at(&["tokens", id]);
        let nothing: Option<&()> = None;
        self.transport.change(Method::DELETE, url, nothing).await
    }
}
