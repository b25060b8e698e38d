//! JSON encoding of a fact in the history, without the spec that it carries.
//!
//! Specs are stored once, however many instances share them; reading a fact puts its spec back.

use std::sync::Arc;

use baton_model::fact::{Fact, Holder};
use baton_model::ids::{InstanceId, LeaseId};
use baton_model::principal::Principal;
use baton_model::spec::{InstanceSpec, SparseSpec};
use baton_model::workflow::Plan;
use serde::{Deserialize, Serialize};

use crate::StoreError;

/// The facts that carry a spec, without it, in the same encoding.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Bare {
    InstancesSubmitted { first: InstanceId, last: InstanceId },
    AttemptAdopted { lease: LeaseId, holder: Holder },
}

/// Encodes a fact; `bare` if the spec that it carries is stored separately.
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
        // Plans are stored once, in a table of their own.
        Fact::RunRegistered {
            run,
            at,
            plan,
            open,
            origin,
        } => serde_json::to_string(&Fact::RunRegistered {
            run: *run,
            at: *at,
            plan: without_tasks(plan),
            open: *open,
            origin: *origin,
        }),
        Fact::RunExtended { run, at, plan } => serde_json::to_string(&Fact::RunExtended {
            run: *run,
            at: *at,
            plan: without_tasks(plan),
        }),
        Fact::RunResumed {
            run,
            generation,
            at,
            plan,
            ..
        } => serde_json::to_string(&Fact::RunResumed {
            run: *run,
            generation: *generation,
            at: *at,
            plan: plan.as_ref().map(|plan| without_tasks(plan)),
            carried: Vec::new(),
            rerun: Vec::new(),
        }),
        other => serde_json::to_string(other),
    };
    body.map_err(|error| StoreError::Failed(format!("cannot write {fact}: {error}")))
}

/// The part of a plan that the history keeps.
fn without_tasks(plan: &Plan) -> Arc<Plan> {
    Arc::new(Plan {
        name: plan.name.clone(),
        owner: plan.owner.clone(),
        params: plan.params.clone(),
        ..Plan::default()
    })
}

/// Decodes a fact; `spec` is the one stored separately, if the fact has one.
pub(crate) fn read(body: &str, spec: Option<Arc<InstanceSpec>>) -> Result<Fact, serde_json::Error> {
    let Some(spec) = spec else {
        return Fact::from_json(body);
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

/// Encodes the client that has asked for a fact.
pub(crate) fn write_requester(client: &Principal) -> Result<String, StoreError> {
    serde_json::to_string(client)
        .map_err(|error| StoreError::Failed(format!("cannot write {client}: {error}")))
}

/// Encodes a spec: only the fields that differ from their defaults, because a leader that takes
/// over reads every spec. So a default can never change here: see the test.
pub(crate) fn write_spec(spec: &InstanceSpec) -> Result<String, StoreError> {
    serde_json::to_string(&SparseSpec(spec))
        .map_err(|error| StoreError::Failed(format!("cannot write a spec: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use baton_model::spec::{Scale, Work};
    use baton_model::time::Millis;

    /// A field left out of a stored spec means this default forever. To change a default, first
    /// write the old one into the stored specs, in a migration, and then change this text.
    #[test]
    fn omitted_fields_keep_their_meaning() {
        let unsaid = serde_json::to_string(&InstanceSpec::default()).expect("JSON");
        let frozen = r#"{"name":"","owner":"","work":{"command":[]},"env":{},"user":null,"uris":[],"request":{"resources":{"cpu_milli":0,"memory_min":0,"memory_max":0,"disk":0,"gpu":0,"named":{},"pin":null},"constraints":[]},"priority":0,"exclusive":"timed","lost_after":null,"retry":{"failures_max":0,"losses_max":100,"backoff":{"first":0,"max":0},"scale":{"memory_percent":100,"timeout_percent":100,"memory_cap":null,"timeout_cap":null,"memory_steps":[],"timeout_steps":[],"requests":[]},"fallback":[]},"timeout":null,"array":null,"origin":null,"part":null,"paths":{"cwd":null,"stdout":null,"stderr":null},"conditions":{"after":[],"instances":null,"concurrent_max":null,"failed_max":null},"tags":[],"time_request":null,"warn":null,"nodes":1,"notify":null,"expected":{"deadline":null,"min":null,"max":null,"learned":false},"secrets":[],"trace":null}"#;
        assert_eq!(unsaid, frozen);
    }

    #[test]
    fn only_fields_that_differ_from_their_defaults_are_written() {
        let mut spec = InstanceSpec {
            name: "n".to_owned(),
            work: Work::Command(vec!["true".to_owned()]),
            ..InstanceSpec::default()
        };
        let body = write_spec(&spec).expect("written");
        assert_eq!(body, r#"{"name":"n","work":{"command":["true"]}}"#);
        spec.env.insert("A".to_owned(), String::new());
        spec.request.resources.memory_min = 7;
        spec.request
            .resources
            .named
            .insert("db/orders".to_owned(), 0);
        spec.retry.losses_max = 0;
        spec.retry.scale = Scale {
            memory_percent: 150,
            ..Scale::default()
        };
        spec.timeout = Some(Millis(0));
        let body = write_spec(&spec).expect("written");
        let read: InstanceSpec = serde_json::from_str(&body).expect("a spec");
        assert_eq!(read, spec);
        assert_eq!(write_spec(&InstanceSpec::default()).expect("written"), "{}");
    }
}
