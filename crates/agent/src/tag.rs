//! Tags: what the coordinator stores with each attempt, so that an agent that knows nothing else
//! can resume it.
//!
//! `INSTANCE NUMBER EPOCH TIMEOUT CLAIMED MEMORY BEGAN [GROWN] [TRACE] SPEC`, with `-` for a missing value. GROWN
//! is a JSON array without spaces, of the requests that have grown, and TRACE a trace context; each is left out if there
//! is none. The spec is JSON and is encoded once for many attempts that share it.

use std::fmt::Write as _;
use std::sync::Arc;

use baton_core::supervision::attempts::Assignment;
use baton_model::ids::{AttemptId, AttemptNo, Epoch, InstanceId, LeaseId};
use baton_model::spec::{InstanceSpec, SparseSpec};
use baton_model::time::{Millis, Mono};

/// Encodes and decodes tags. Attempts of one array follow each other, so only the last spec is
/// cached.
#[derive(Debug, Default)]
pub(crate) struct Tags {
    last: Option<(Arc<InstanceSpec>, String)>,
}

impl Tags {
    pub(crate) fn write(&mut self, tag: &Assignment) -> Result<String, serde_json::Error> {
        let json = match &mut self.last {
            Some((spec, json)) if Arc::ptr_eq(spec, &tag.spec) => json,
            last => {
                let json = serde_json::to_string(&SparseSpec(&tag.spec))?;
                &mut last.insert((Arc::clone(&tag.spec), json)).1
            }
        };
        let LeaseId { attempt, epoch } = tag.lease;
        let mut text = String::with_capacity(json.len() + 64);
        let number = |text: &mut String, number: Option<u64>| {
            // Writing to a string does not fail.
            let _ = match number {
                Some(number) => write!(text, "{number} "),
                None => write!(text, "- "),
            };
        };
        number(&mut text, Some(attempt.instance.0));
        number(&mut text, Some(attempt.number.0.into()));
        number(&mut text, Some(epoch.0));
        number(&mut text, tag.timeout.map(|span| span.0));
        number(&mut text, Some(tag.memory_min));
        number(&mut text, Some(tag.memory_max));
        number(&mut text, tag.began.map(|at| at.0));
        if !tag.requests.is_empty() {
            text.push_str(&serde_json::to_string(&tag.requests)?);
            text.push(' ');
        }
        if let Some(trace) = tag.trace {
            let _ = write!(text, "{trace} ");
        }
        text.push_str(json);
        Ok(text)
    }

    /// `None` if the text is not a tag.
    pub(crate) fn read(&mut self, text: &str) -> Option<Assignment> {
        let mut words = text.splitn(8, ' ');
        let mut word = || words.next();
        let instance = InstanceId(word()?.parse().ok()?);
        let number = AttemptNo(word()?.parse().ok()?);
        let epoch = Epoch(word()?.parse().ok()?);
        let timeout = optional(word()?)?.map(Millis);
        let memory_min = word()?.parse().ok()?;
        let memory_max = word()?.parse().ok()?;
        let began = optional(word()?)?.map(Mono);
        let rest = word()?;
        let (requests, json) = match rest.split_once(' ').filter(|_| rest.starts_with('[')) {
            Some((grown, json)) => (serde_json::from_str(grown).ok()?, json),
            None => (Vec::new(), rest),
        };
        let (trace, json) = match json.split_once(' ').filter(|_| !json.starts_with('{')) {
            Some((trace, json)) => (Some(trace.parse().ok()?), json),
            None => (None, json),
        };
        let spec = match &self.last {
            Some((spec, last)) if last == json => Arc::clone(spec),
            _ => {
                let spec: Arc<InstanceSpec> = Arc::new(serde_json::from_str(json).ok()?);
                self.last = Some((Arc::clone(&spec), json.to_owned()));
                spec
            }
        };
        let attempt = AttemptId { instance, number };
        Some(Assignment {
            lease: LeaseId { attempt, epoch },
            spec,
            timeout,
            memory_min,
            memory_max,
            requests,
            began,
            trace,
        })
    }
}

fn optional(word: &str) -> Option<Option<u64>> {
    match word {
        "-" => Some(None),
        number => number.parse().ok().map(Some),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use baton_model::spec::{GrownRequest, ScaledRequest, Work};

    const CONTEXT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    fn tag(spec: &Arc<InstanceSpec>, instance: u64) -> Assignment {
        Assignment {
            lease: LeaseId {
                attempt: AttemptId {
                    instance: InstanceId(instance),
                    number: AttemptNo(2),
                },
                epoch: Epoch(3),
            },
            spec: Arc::clone(spec),
            timeout: (instance > 1).then_some(Millis(5)),
            memory_min: 6,
            memory_max: 7,
            requests: (instance > 2)
                .then_some(GrownRequest {
                    request: ScaledRequest::Cpu,
                    amount: 3_000,
                    step: 1,
                })
                .into_iter()
                .collect(),
            began: (instance > 2).then_some(Mono(11)),
            trace: (instance > 1).then(|| CONTEXT.parse().expect("valid")),
        }
    }

    #[test]
    fn a_tag_comes_back_as_it_was_and_shares_its_spec() {
        let spec = Arc::new(InstanceSpec {
            name: "two words".to_owned(),
            work: Work::Command(vec!["a b".to_owned()]),
            ..InstanceSpec::default()
        });
        let mut tags = Tags::default();
        let texts: Vec<String> = (1..4)
            .map(|instance| tags.write(&tag(&spec, instance)).expect("JSON"))
            .collect();
        let mut tags = Tags::default();
        let read: Vec<Assignment> = texts.iter().filter_map(|text| tags.read(text)).collect();
        let wanted: Vec<Assignment> = (1..4).map(|instance| tag(&spec, instance)).collect();
        assert_eq!(read, wanted);
        assert!(Arc::ptr_eq(&read[0].spec, &read[2].spec));
    }

    #[test]
    fn what_is_no_tag_is_refused() {
        for text in ["", "1 2 3", "1 2 3 - 0 0 - {", "x 2 3 - 0 0 - {}"] {
            assert_eq!(Tags::default().read(text), None, "{text}");
        }
    }
}
