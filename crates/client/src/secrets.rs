//! Secrets, by their names.

use baton_model::api::{List, Rekeyed, Secret, SetSecret};
use reqwest::Method;

use crate::Client;
use crate::error::ClientError;

impl Client {
    /// The secrets that work of an owner may have, or all; without their values.
    pub async fn secrets(&self, owner: Option<&str>) -> Result<Vec<Secret>, ClientError> {
        let mut url = self.transport.at(&["secrets", ""]);
        if let Some(owner) = owner {
            url.query_pairs_mut().append_pair("owner", owner);
        }
        let list: List<Secret> = self.transport.get(url).await?;
        Ok(list.items)
    }

    /// Sets a secret, or replaces its value.
    pub async fn set_secret(
        &self,
        owner: &str,
        name: &str,
        value: &SetSecret,
    ) -> Result<Secret, ClientError> {
        let url = self.transport.at(&["secrets", owner, name]);
        self.transport.change(Method::PUT, url, Some(value)).await
    }

    /// Removes a secret.
    pub async fn remove_secret(&self, owner: &str, name: &str) -> Result<Secret, ClientError> {
        let url = self.transport.at(&["secrets", owner, name]);
        let no_body: Option<&()> = None;
        self.transport.change(Method::DELETE, url, no_body).await
    }

    /// Encrypts all secrets with the first key of the scheduler's file.
    pub async fn rekey_secrets(&self) -> Result<Rekeyed, ClientError> {
        let url = self.transport.at(&["secrets", "rekey"]);
        let no_body: Option<&()> = None;
        self.transport.change(Method::POST, url, no_body).await
    }
}
