//! Secrets, by their names.

use askama::Template;
use baton_model::api::{List, Secret};

use super::filters::Filters;
use crate::frame::Frame;
use crate::time::Stamp;

/// The list of secrets, without their values.
#[derive(Template)]
#[template(path = "secrets.html")]
pub struct SecretsPage {
    pub frame: Frame,
    pub filters: Filters,
    pub rows: Vec<SecretRow>,
}

/// A secret.
pub struct SecretRow {
    pub owner: String,
    pub name: String,
    pub source: String,
    pub version: String,
    pub set: Option<Stamp>,
    pub by: String,
    pub used: Option<Stamp>,
}

impl SecretsPage {
    #[must_use]
    pub fn new(frame: Frame, filters: Filters, list: &List<Secret>) -> Self {
        let rows = list.items.iter().map(|secret| SecretRow {
            owner: secret.owner.clone(),
            name: secret.name.clone(),
            source: secret.source.clone(),
            version: secret.version.map_or_else(String::new, |it| it.to_string()),
            set: secret.set_at.map(Stamp),
            by: secret.set_by.clone().unwrap_or_default(),
            used: secret.used_at.map(Stamp),
        });
        Self {
            frame,
            filters,
            rows: rows.collect(),
        }
    }
}
