//! Writing and reading specs.
//!
//! Instances with equal specs share one row if they were submitted within the reach of
//! [`SpecWriter`]'s cache. A duplicate row costs space but is not an error. A reader of many
//! instances parses each spec once: [`SpecCache`].

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use baton_model::ids::{Epoch, RunId};
use baton_model::spec::InstanceSpec;

use super::db::{Db, Error, Row, corrupt_column, params};
use crate::change_set::SpecId;
use crate::limits::{CLAIMS_CACHED_MAX, SPEC_CACHED_BYTES_MAX, SPECS_CACHED_MAX};
use crate::postgres::session::{Query, Session};
use crate::usage::Claim;
use crate::view::Seq;
use crate::{StoreError, body};

/// Statements of most groups, which PostgreSQL's writer plans in advance.
pub(super) const STATEMENTS: &[&str] = &[INSERT, ADD_USES, SELECT_MANY];

const INSERT: &str = "INSERT INTO spec (id, uses, name, owner, body) VALUES (?1, ?2, ?3, ?4, ?5)";

const ADD_USES: &str = "UPDATE spec SET uses = uses + ?2 WHERE id = ?1";

/// PostgreSQL only.
const SELECT_MANY: &str = "SELECT id, body FROM spec WHERE id = ANY(?1)";

/// The specs of one group, and a cache of those of earlier groups.
#[derive(Default)]
pub(super) struct SpecWriter {
    cached: HashMap<Arc<str>, SpecId>,
    /// The last spec that was added: the next is often the same one.
    latest: Option<(Arc<InstanceSpec>, SpecId, u64)>,
    new: BTreeMap<SpecId, (Arc<InstanceSpec>, Arc<str>)>,
    uses: BTreeMap<SpecId, u64>,
    claims: HashMap<SpecId, Arc<Claim>>,
    seen_version: i64,
}

impl SpecWriter {
    /// Clears the cache if another connection has written: rows may be gone.
    pub(super) fn begin(&mut self, db: &Db<'_>, epoch: Epoch) -> Result<(), Error> {
        // Other schedulers of a shared store write and prune under other epochs only.
        let version = match db {
            Db::Sqlite(_) => db.query_row("PRAGMA data_version", (), |row| row.get(0))?,
            Db::Postgres(_) => epoch.0.cast_signed(),
        };
        if version != self.seen_version {
            *self = Self {
                seen_version: version,
                ..Self::default()
            };
        }
        Ok(())
    }

    /// Adds `uses` more instances to a spec; returns its id and its bytes.
    pub(super) fn add(
        &mut self,
        seq: Seq,
        spec: &Arc<InstanceSpec>,
        uses: u64,
    ) -> Result<(SpecId, u64), StoreError> {
        let (id, bytes) = match &self.latest {
            Some((latest, id, bytes)) if Arc::ptr_eq(latest, spec) => (*id, *bytes),
            _ => self.find(seq, spec)?,
        };
        let count = self.uses.entry(id).or_default();
        *count = count.saturating_add(uses);
        Ok((id, bytes))
    }

    fn find(&mut self, seq: Seq, spec: &Arc<InstanceSpec>) -> Result<(SpecId, u64), StoreError> {
        let body: Arc<str> = body::write_spec(spec)?.into();
        let bytes = body.len() as u64;
        let id = match self.cached.get(&body) {
            Some(id) => *id,
            None => {
                let id = seq.0.cast_signed();
                self.cache(&body, id);
                // Its instances begin and end soon, most of them.
                self.remember_claim(id, Claim::of(spec));
                self.new.insert(id, (Arc::clone(spec), body));
                id
            }
        };
        self.latest = Some((Arc::clone(spec), id, bytes));
        Ok((id, bytes))
    }

    fn cache(&mut self, body: &Arc<str>, id: SpecId) {
        if body.len() <= SPEC_CACHED_BYTES_MAX {
            if self.cached.len() >= SPECS_CACHED_MAX {
                self.cached.clear();
            }
            self.cached.insert(Arc::clone(body), id);
        }
    }

    /// The owner, resource claim and run item of a spec, new or stored.
    pub(super) fn claim(&mut self, db: &Db<'_>, id: SpecId) -> Result<Arc<Claim>, Error> {
        if let Some(claim) = self.claims.get(&id) {
            return Ok(Arc::clone(claim));
        }
        let claim = match self.new.get(&id) {
            Some((spec, _)) => Claim::of(spec),
            None => db
                .prepare_cached("SELECT body FROM spec WHERE id = ?1")?
                .query_row([id], |row| Ok(Claim::of(&*parse(row.text(0)?, 0)?)))?,
        };
        Ok(self.remember_claim(id, claim))
    }

    /// The run of the spec that was added last, if it is an item of one.
    pub(super) fn latest_run(&self) -> Option<RunId> {
        let (latest, ..) = self.latest.as_ref()?;
        Some(latest.part?.run)
    }

    /// The same, if it is at hand.
    pub(super) fn cached_claim(&self, id: SpecId) -> Option<&Claim> {
        self.claims.get(&id).map(Arc::as_ref)
    }

    fn remember_claim(&mut self, id: SpecId, claim: Claim) -> Arc<Claim> {
        let claim = Arc::new(claim);
        if self.claims.len() >= CLAIMS_CACHED_MAX {
            self.claims.clear();
        }
        self.claims.insert(id, Arc::clone(&claim));
        claim
    }

    /// Fetches the claims of several stored specs at once.
    pub(super) fn fetch_claims(
        &mut self,
        session: &Session<'_>,
        specs: impl Iterator<Item = SpecId>,
    ) -> Result<(), Error> {
        let missing = specs.filter(|it| !self.claims.contains_key(it));
        let missing: BTreeSet<SpecId> = missing.collect();
        if missing.is_empty() {
            return Ok(());
        }
        let missing: Vec<SpecId> = missing.into_iter().collect();
        for mut rows in session.query_together(&[Query::OfIds(SELECT_MANY, &missing)])? {
            while let Some(row) = rows.next()? {
                let row = Row::Postgres(row);
                let claim = Claim::of(&*parse(row.text(1)?, 1)?);
                self.remember_claim(row.get(0)?, claim);
            }
        }
        Ok(())
    }

    /// Writes what the group has added.
    pub(super) fn write(&mut self, db: &Db<'_>) -> Result<(), Error> {
        let mut insert = db.prepare_cached(INSERT)?;
        let mut update = db.prepare_cached(ADD_USES)?;
        let new = std::mem::take(&mut self.new);
        for (id, uses) in std::mem::take(&mut self.uses) {
            let uses = i64::try_from(uses).unwrap_or(i64::MAX);
            match new.get(&id) {
                Some((spec, body)) => {
                    insert.write(params![id, uses, spec.name, spec.owner, &**body])?
                }
                None => update.write([id, uses])?,
            };
        }
        Ok(())
    }
}

/// Specs that were read, one copy of each.
#[derive(Default)]
pub(super) struct SpecCache(HashMap<SpecId, Arc<InstanceSpec>>);

impl SpecCache {
    /// Reads a spec whose columns `body, uses` start at `column`.
    pub(super) fn read(
        &mut self,
        row: &Row<'_>,
        id: SpecId,
        column: usize,
    ) -> Result<Arc<InstanceSpec>, Error> {
        if let Some(spec) = self.0.get(&id) {
            return Ok(Arc::clone(spec));
        }
        let spec = parse(row.text(column)?, column)?;
        // A spec with only one instance is not needed again.
        if row.get::<i64>(column + 1)? > 1 {
            self.0.insert(id, Arc::clone(&spec));
        }
        Ok(spec)
    }
}

pub(super) fn parse(body: &str, column: usize) -> Result<Arc<InstanceSpec>, Error> {
    let spec = serde_json::from_str(body).map_err(|error| corrupt_column(column, error))?;
    Ok(Arc::new(spec))
}
