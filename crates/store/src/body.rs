//! A fact as it stands in the history: JSON, without the spec that it brought.
//!
//! Specs are kept once, however many instances share them; what was left out is put
//! back from there when the fact is read.

use std::sync::Arc;

use baton_model::fact::{Fact, Holder};
use baton_model::ids::{InstanceId, LeaseId};
use baton_model::spec::InstanceSpec;
use serde::{Deserialize, Serialize};

use crate::StoreError;

/// The facts that bring a spec, without it, in the same words.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Bare {
    InstancesSubmitted { first: InstanceId, last: InstanceId },
    AttemptAdopted { lease: LeaseId, holder: Holder },
}

/// The body of a fact; bare if the spec that it brought is kept apart.
pub(crate) fn write(fact: &Fact, bare: bool) -> Result<String, StoreError> {
    let body = match fact {
        Fact::InstancesSubmitted { first, last, .. } if bare => {
            let (first, last) = (*first, *last);
            serde_json::to_string(&Bare::InstancesSubmitted { first, last })
        }
        Fact::AttemptAdopted { lease, holder, .. } if bare => {
            let (lease, holder) = (*lease, holder.clone());
            serde_json::to_string(&Bare::AttemptAdopted { lease, holder })
        }
        other => serde_json::to_string(other),
    };
    body.map_err(|error| StoreError::Failed(format!("cannot write {fact}: {error}")))
}

/// The fact of a body, and of the spec that belongs to it, if any does.
pub(crate) fn read(body: &str, spec: Option<Arc<InstanceSpec>>) -> Result<Fact, serde_json::Error> {
    let Some(spec) = spec else {
        return serde_json::from_str(body);
    };
    Ok(match serde_json::from_str(body)? {
        Bare::InstancesSubmitted { first, last } => Fact::InstancesSubmitted { first, last, spec },
        Bare::AttemptAdopted { lease, holder } => Fact::AttemptAdopted {
            lease,
            holder,
            spec,
        },
    })
}

/// What a spec looks like in a store.
pub(crate) fn write_spec(spec: &InstanceSpec) -> Result<String, StoreError> {
    serde_json::to_string(spec)
        .map_err(|error| StoreError::Failed(format!("cannot write a spec: {error}")))
}
