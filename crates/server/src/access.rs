//! Authentication: tokens and client certificates.
//!
//! All tokens of the store are cached in memory, so that no request costs a read. The cache is
//! refreshed whenever this server changes a token, and every few seconds, because `baton token
//! --data` may change them from another process. While the store cannot be read, the cached tokens
//! stay in force.
//!
//! `http::routes` maps requests to roles. `baton_store::token` defines the format of a token.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use baton_model::fleet::FleetName;
use baton_model::ids::TokenId;
use baton_model::principal::Principal;
use baton_model::time::Wall;
use baton_model::token::{Role, Secret, SecretHash, Token};
use baton_store::{StoreError, Views, token};
use baton_tls::subject::Subject;
use thiserror::Error;
use tokio::sync::{Mutex, watch};
use tokio::time::sleep;
use tokio_rustls::rustls::pki_types::CertificateDer;

use crate::clock;
use crate::limits::{TOKEN_CHECK_PAUSE, TOKENS_REFRESH_INTERVAL};

/// An authenticated client, or an anonymous one where no authentication is required.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Caller {
    pub(crate) role: Role,
    pub(crate) identity: Identity,
    /// Limits it to objects of this owner, if set.
    pub(crate) owner: Option<Arc<str>>,
}

/// How a caller is identified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Identity {
    /// Id and name of a token.
    Token(TokenId, Arc<str>),
    /// Id of a token that was issued for the pilots of a fleet.
    Pilot(TokenId, FleetName),
    /// Common name of a certificate.
    Certificate(Arc<str>),
    /// The worker of this process.
    LocalWorker,
    /// No authentication is required. The client may have said who its user is.
    Anonymous(Option<Arc<str>>),
}

impl Caller {
    /// The caller where no authentication is required.
    pub(crate) const ANONYMOUS: Self = Self {
        role: Role::Admin,
        identity: Identity::Anonymous(None),
        owner: None,
    };

    /// What facts record about it; nothing if it is not known.
    pub(crate) fn principal(&self) -> Option<Arc<Principal>> {
        let principal = match &self.identity {
            Identity::Token(id, name) => Principal::Token {
                id: *id,
                name: name.to_string(),
            },
            Identity::Pilot(id, fleet) => Principal::Token {
                id: *id,
                name: format!("pilots of {fleet}"),
            },
            Identity::Certificate(name) => Principal::Certificate {
                name: name.to_string(),
            },
            Identity::Anonymous(Some(name)) => Principal::Unauthenticated {
                name: name.to_string(),
            },
            Identity::Anonymous(None) | Identity::LocalWorker => return None,
        };
        Some(Arc::new(principal))
    }
}

impl fmt::Display for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.identity {
            Identity::Token(id, _) | Identity::Pilot(id, _) => id.fmt(f),
            Identity::Certificate(name) => write!(f, "the holder of the certificate {name:?}"),
            Identity::LocalWorker | Identity::Anonymous(_) => f.write_str("an anonymous client"),
        }
    }
}

/// Why a token is not valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum TokenError {
    #[error("this token is unknown")]
    Unknown,
    #[error("this token has expired")]
    Expired,
    #[error("this token was revoked")]
    Revoked,
}

/// A certificate whose signature was verified.
///
/// Its organizational unit is the role. A certificate with no role, or with more than one, grants
/// nothing: a CA may sign for other purposes as well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Certificate {
    name: Arc<str>,
    role: Option<Role>,
    not_after: Wall,
}

impl Certificate {
    /// Parses a certificate; `None` if that fails.
    pub(crate) fn read(der: &CertificateDer<'_>) -> Option<Self> {
        let subject = Subject::read(der)?;
        let mut roles = subject.units.iter().filter_map(|unit| unit.parse().ok());
        let role = roles.next().filter(|_| roles.next().is_none());
        Some(Self {
            name: subject.common_name.unwrap_or_default().into(),
            role,
            not_after: Wall(subject.not_after.saturating_mul(1_000)),
        })
    }

    /// The role that it names, if any; an error if it has expired.
    pub(crate) fn role(&self, now: Wall) -> Result<Option<Role>, &'static str> {
        if now < self.not_after {
            Ok(self.role)
        } else {
            Err(CERTIFICATE_EXPIRED)
        }
    }

    /// The caller that it identifies.
    pub(crate) fn caller(&self, now: Wall) -> Result<Caller, &'static str> {
        let role = self.role(now)?.ok_or(CERTIFICATE_WITHOUT_ROLE)?;
        Ok(Caller {
            role,
            identity: Identity::Certificate(Arc::clone(&self.name)),
            owner: None,
        })
    }

    /// What facts record about its holder.
    pub(crate) fn principal(&self) -> Principal {
        Principal::Certificate {
            name: self.name.to_string(),
        }
    }

    /// Resolves when it expires.
    pub(crate) async fn until_invalid(&self) -> &'static str {
        loop {
            let now = clock::now().wall;
            if now >= self.not_after {
                return CERTIFICATE_EXPIRED;
            }
            let left = Duration::from_millis(self.not_after.0 - now.0);
            sleep(left.min(TOKEN_CHECK_PAUSE)).await;
        }
    }
}

const CERTIFICATE_EXPIRED: &str = "this certificate has expired";

/// The message for a certificate without a role.
pub(crate) const CERTIFICATE_WITHOUT_ROLE: &str = "this certificate names no role; have one signed whose organizational unit (OU) is viewer, \
     operator, admin or worker";

type Table = HashMap<SecretHash, Token>;

/// The cache of all tokens.
#[derive(Clone)]
pub(crate) struct Access(Arc<Inner>);

struct Inner {
    store: Arc<dyn Views>,
    /// Secret hash of the worker of this process, if it has one.
    local_worker: Option<SecretHash>,
    table: watch::Sender<Table>,
    /// Held from reading to installing, so that no older snapshot replaces a newer one.
    refreshing: Mutex<()>,
}

impl Access {
    /// Reads the tokens of a store.
    pub(crate) fn new(
        store: Arc<dyn Views>,
        local_worker: Option<&Secret>,
    ) -> Result<Self, StoreError> {
        let (table, _) = watch::channel(read(&*store)?);
        Ok(Self(Arc::new(Inner {
            store,
            local_worker: local_worker.map(token::hash),
            table,
            refreshing: Mutex::default(),
        })))
    }

    /// True if any token is valid.
    pub(crate) fn has_valid_token(&self, now: Wall) -> bool {
        let table = self.0.table.borrow();
        let mut tokens = table.values();
        // Those of pilots are issued by schedulers, and show only that there was one.
        tokens.any(|token| token.fleet.is_none() && token.is_valid(now))
    }

    pub(crate) fn caller(&self, secret: &Secret, now: Wall) -> Result<Caller, TokenError> {
        self.find(&token::hash(secret), now)
            .map(|(caller, _)| caller)
    }

    /// True if a token was revoked.
    pub(crate) fn is_revoked(&self, id: TokenId) -> bool {
        let table = self.0.table.borrow();
        let token = table.values().find(|token| token.id == id);
        token.is_none_or(|token| token.revoked)
    }

    /// Refreshes the cache.
    pub(crate) async fn refresh(&self) -> Result<(), StoreError> {
        let _turn = self.0.refreshing.lock().await;
        let store = Arc::clone(&self.0.store);
        let work = tokio::task::spawn_blocking(move || read(&*store));
        self.install(work.await.unwrap_or(Err(StoreError::Closed))?);
        Ok(())
    }

    /// Refreshes the cache, on a thread that may block.
    pub(crate) fn refresh_blocking(&self) -> Result<(), StoreError> {
        let _turn = self.0.refreshing.blocking_lock();
        self.install(read(&*self.0.store)?);
        Ok(())
    }

    fn install(&self, table: Table) {
        self.0.table.send_if_modified(|known| {
            let modified = *known != table;
            if modified {
                *known = table;
            }
            modified
        });
    }

    /// The token of a secret, whatever has become of it.
    pub(crate) fn id_of(&self, secret: &Secret) -> Option<TokenId> {
        let table = self.0.table.borrow();
        table.get(&token::hash(secret)).map(|token| token.id)
    }

    /// The end of a token, if it is a valid one of the pilots of a fleet.
    pub(crate) fn end_of(&self, fleet: &FleetName, secret: &Secret, now: Wall) -> Option<Wall> {
        let table = self.0.table.borrow();
        let token = table.get(&token::hash(secret))?;
        let is_good = token.fleet.as_ref() == Some(fleet) && token.is_valid(now);
        token.expires_at.filter(|_| is_good)
    }

    /// Refreshes the cache periodically, until it is aborted.
    pub(crate) async fn refresh_periodically(self) {
        let mut failed = false;
        loop {
            sleep(TOKENS_REFRESH_INTERVAL).await;
            match self.refresh().await {
                Ok(()) => failed = false,
                // Logged once, not with every attempt.
                Err(error) if !failed => {
                    tracing::warn!(
                        "cannot read the tokens, so the cached ones stay in force: {error}"
                    );
                    failed = true;
                }
                Err(_) => {}
            }
        }
    }

    /// Resolves when this secret is no longer valid.
    pub(crate) async fn until_invalid(&self, secret: &Secret) -> TokenError {
        let hash = token::hash(secret);
        let mut changes = self.0.table.subscribe();
        loop {
            changes.mark_unchanged();
            let now = clock::now().wall;
            let expires_at = match self.find(&hash, now) {
                Ok((_, expires_at)) => expires_at,
                Err(denied) => return denied,
            };
            // Sleeps in steps, because the wall clock may be set.
            let left = expires_at.map(|end| Duration::from_millis(end.0.saturating_sub(now.0)));
            let pause = left.map_or(TOKEN_CHECK_PAUSE, |left| left.min(TOKEN_CHECK_PAUSE));
            tokio::select! {
                // The sender lives as long as `self`.
                _ = changes.changed() => {}
                () = sleep(pause) => {}
            }
        }
    }

    /// The caller with a secret of this hash, and when the token expires.
    fn find(&self, hash: &SecretHash, now: Wall) -> Result<(Caller, Option<Wall>), TokenError> {
        if self.0.local_worker.as_ref() == Some(hash) {
            let (role, identity, owner) = (Role::Worker, Identity::LocalWorker, None);
            return Ok((
                Caller {
                    role,
                    identity,
                    owner,
                },
                None,
            ));
        }
        let table = self.0.table.borrow();
        let token = table.get(hash).ok_or(TokenError::Unknown)?;
        if token.revoked {
            return Err(TokenError::Revoked);
        }
        if !token.is_valid(now) {
            return Err(TokenError::Expired);
        }
        let caller = Caller {
            role: token.role,
            identity: match &token.fleet {
                Some(fleet) => Identity::Pilot(token.id, fleet.clone()),
                None => Identity::Token(token.id, token.name.as_str().into()),
            },
            owner: token.owner.as_deref().map(Arc::from),
        };
        Ok((caller, token.expires_at))
    }
}

fn read(store: &dyn Views) -> Result<Table, StoreError> {
    let tokens = store.tokens()?.into_iter();
    Ok(tokens.map(|token| (token.hash, token)).collect())
}

#[cfg(test)]
mod tests {
    use baton_model::token::NewToken;
    use baton_store::FactLog;
    use baton_testing::ca::{Ca, CertRequest};
    use tokio_rustls::rustls::pki_types::pem::PemObject as _;

    use super::*;
    use crate::faulty::{Fault, Faulty};

    fn made(store: &dyn FactLog, role: Role, expires_at: Option<Wall>) -> (TokenId, Secret) {
        let secret = token::generate().expect("random bits");
        let new = NewToken {
            name: role.to_string(),
            role,
            owner: None,
            fleet: None,
            hash: token::hash(&secret),
            created_at: Wall(1),
            expires_at,
        };
        (store.create_token(&new).expect("kept"), secret)
    }

    #[test]
    fn a_certificate_gives_the_one_role_that_it_names() {
        let read = |units: &[&str]| {
            let wanted = CertRequest {
                name: "ann",
                units,
                ..CertRequest::PLAIN
            };
            let (pem, _) = Ca::new("ca").issue(wanted);
            let der = CertificateDer::from_pem_slice(pem.as_bytes()).expect("a certificate");
            Certificate::read(&der).expect("of the usual kind")
        };
        let now = clock::now().wall;
        let role = |units: &[&str]| read(units).caller(now).ok().map(|it| it.role);
        assert_eq!(role(&["worker"]), Some(Role::Worker));
        assert_eq!(role(&["Sales", "admin"]), Some(Role::Admin));
        for nothing in [&[][..], &["Sales"], &["Admin"], &["viewer", "admin"]] {
            assert_eq!(role(nothing), None, "{nothing:?}");
        }
        let later = Wall(now.0 + 2 * 86_400_000);
        assert_eq!(read(&["admin"]).caller(later), Err(CERTIFICATE_EXPIRED));
        let ann = read(&["viewer"]).caller(now).expect("a role");
        assert_eq!(ann.to_string(), "the holder of the certificate \"ann\"");
    }

    #[tokio::test]
    async fn a_certificate_is_good_until_its_time_is_over() {
        let certificate = Certificate {
            name: "ann".into(),
            role: Some(Role::Worker),
            not_after: Wall(clock::now().wall.0 + 50),
        };
        assert_eq!(certificate.until_invalid().await, CERTIFICATE_EXPIRED);
        assert!(certificate.caller(clock::now().wall).is_err());
    }

    #[tokio::test]
    async fn what_another_process_changes_is_known_after_a_renewal() {
        let store = Arc::new(Faulty::default());
        let access = Access::new(Arc::clone(&store) as _, None).expect("readable");
        assert!(!access.has_valid_token(Wall(2)));
        let (id, secret) = made(&*store, Role::Viewer, Some(Wall(10)));
        let caller = |now| access.caller(&secret, Wall(now));
        assert_eq!(caller(2), Err(TokenError::Unknown));
        access.refresh().await.expect("readable");
        let (role, identity) = (Role::Viewer, Identity::Token(id, "viewer".into()));
        let owner = None;
        assert_eq!(
            caller(2),
            Ok(Caller {
                role,
                identity,
                owner
            })
        );
        assert!(access.has_valid_token(Wall(2)) && !access.has_valid_token(Wall(10)));
        assert_eq!(caller(10), Err(TokenError::Expired));
        store.revoke_token(id).expect("there");
        access.refresh().await.expect("readable");
        assert_eq!(caller(2), Err(TokenError::Revoked));
    }

    #[tokio::test]
    async fn while_the_store_cannot_be_read_the_known_tokens_count() {
        let store = Arc::new(Faulty::default());
        let (_, secret) = made(&*store, Role::Admin, None);
        let access = Access::new(Arc::clone(&store) as _, None).expect("readable");
        let faults = &store.token_reads;
        faults.lock().expect("no panic").push_back(Fault::Fails);
        access.refresh().await.expect_err("injected fault");
        assert!(access.caller(&secret, Wall(2)).is_ok());
    }

    #[tokio::test]
    async fn the_own_worker_needs_no_store_and_is_no_reason_to_open_the_ports() {
        let local_worker = token::generate().expect("random bits");
        let access =
            Access::new(Arc::new(Faulty::default()), Some(&local_worker)).expect("readable");
        let (role, identity) = (Role::Worker, Identity::LocalWorker);
        let owner = None;
        let caller = Caller {
            role,
            identity,
            owner,
        };
        assert_eq!(access.caller(&local_worker, Wall(2)), Ok(caller));
        assert!(!access.has_valid_token(Wall(2)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_ends_when_its_token_is_revoked() {
        let store = Arc::new(Faulty::default());
        let (id, secret) = made(&*store, Role::Worker, None);
        let access = Access::new(Arc::clone(&store) as _, None).expect("readable");
        let renewing = tokio::spawn(access.clone().refresh_periodically());
        let waiting = access.clone();
        let waiting = tokio::spawn(async move { waiting.until_invalid(&secret).await });
        store.revoke_token(id).expect("there");
        assert_eq!(waiting.await.expect("no panic"), TokenError::Revoked);
        renewing.abort();
    }
}
