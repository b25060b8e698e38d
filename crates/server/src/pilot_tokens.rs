//! Tokens of the pilots of fleets, in the store and in the cache of this process.

use std::sync::Arc;

use baton_fleet::TokenStore;
use baton_model::fleet::FleetName;
use baton_model::time::Wall;
use baton_model::token::{NewToken, Role, Secret};
use baton_store::{FactLog, token};

use crate::access::Access;
use crate::clock;

/// Issues tokens for pilots. Its methods block.
#[derive(Clone)]
pub(crate) struct PilotTokens {
    pub(crate) store: Arc<dyn FactLog>,
    pub(crate) access: Access,
}

impl PilotTokens {
    fn refresh(&self) {
        if let Err(error) = self.access.refresh_blocking() {
            // The periodic refresh tries again.
            tracing::warn!("cannot read the tokens: {error}");
        }
    }
}

impl TokenStore for PilotTokens {
    fn issue(&self, fleet: &FleetName, until: Wall) -> Result<Secret, String> {
        let secret = token::generate().map_err(|error| format!("no random bits: {error}"))?;
        let new = NewToken {
            name: format!("pilots of {fleet}"),
            role: Role::Worker,
            owner: None,
            fleet: Some(fleet.clone()),
            hash: token::hash(&secret),
            created_at: clock::now().wall,
            expires_at: Some(until),
        };
        let id = self.store.create_token(&new);
        let id = id.map_err(|error| error.to_string())?;
        tracing::info!("issued token {id} for the pilots of fleet {fleet}");
        // Before a pilot presents it.
        self.refresh();
        Ok(secret)
    }

    fn end_of(&self, fleet: &FleetName, secret: &Secret) -> Option<Wall> {
        self.refresh();
        self.access.end_of(fleet, secret, clock::now().wall)
    }

    fn revoke(&self, secret: &Secret) {
        let Some(id) = self.access.id_of(secret) else {
            return;
        };
        if let Err(error) = self.store.revoke_token(id) {
            // It ends by itself, and no one has it.
            tracing::warn!("cannot revoke token {id}: {error}");
        }
        self.refresh();
    }
}
