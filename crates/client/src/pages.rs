//! Addresses of web pages.

use reqwest::header::{ACCEPT, CONTENT_TYPE};

use crate::Client;
use crate::error::ClientError;

impl Client {
    /// The address of a page; the segments of its path may be any text.
    #[must_use]
    pub fn page(&self, path: &[&str]) -> String {
        self.transport.at(path).to_string()
    }

    /// Whether the scheduler serves pages.
    ///
    /// # Errors
    /// See [`ClientError`]; a server that answers with anything but a page is not an error.
    pub async fn serves_pages(&self) -> Result<bool, ClientError> {
        let url = self.transport.at(&["-", "keys"]);
        let response = self
            .transport
            .any_status(url, (ACCEPT, "text/html"))
            .await?;
        let media = response.headers().get(CONTENT_TYPE);
        let is_html = media.is_some_and(|media| media.as_bytes().starts_with(b"text/html"));
        Ok(is_html && response.status().is_success())
    }
}
