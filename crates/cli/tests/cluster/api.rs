//! Requests to a cluster's scheduler, with the typed client.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use baton_client::{Client, ClientError, Span};
use baton_model::api::{Event, Indices, Instance, Submit, SubmitReply, Worker};
use baton_model::ids::InstanceId;
use baton_model::token::Secret;
use baton_testing::cluster::Cluster;
use baton_testing::{PATIENCE, until_some};
use serde_json::{Value, json};

/// What tests ask of a scheduler.
pub(crate) trait Api {
    fn scheduler_url(&self) -> &str;

    /// The token of its clients, if they need one.
    fn token(&self) -> Option<&Secret> {
        None
    }

    /// Runs a request against the scheduler, and retries while it cannot be reached.
    fn ask<T, F>(&self, what: impl Fn(Client) -> F) -> T
    where
        F: Future<Output = Result<T, ClientError>>,
    {
        let begun = Instant::now();
        loop {
            match self.ask_once(&what) {
                Ok(answer) => return answer,
                Err(error) => {
                    assert!(begun.elapsed() < PATIENCE, "no answer: {error}");
                    std::thread::sleep(Duration::from_millis(20));
                }
            }
        }
    }

    /// Runs a request against the scheduler once.
    fn ask_once<T, F>(&self, what: impl Fn(Client) -> F) -> Result<T, ClientError>
    where
        F: Future<Output = Result<T, ClientError>>,
    {
        let mut client = Client::new(self.scheduler_url()).expect("a URL");
        if let Some(token) = self.token() {
            client = client.with_token(token);
        }
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        runtime.block_on(what(client))
    }

    /// Submits a task once, and ignores errors.
    fn try_submit(&self, file: Value) -> Result<SubmitReply, ClientError> {
        let submit = Submit {
            file,
            params: BTreeMap::new(),
            array: None,
            ..Default::default()
        };
        self.ask_once(|client| {
            let submit = submit.clone();
            async move { client.submit(&submit).await }
        })
    }

    /// Submits a task, as an array of so many if there are several.
    fn submit(&self, file: Value, count: u64) -> Span {
        let submit = Submit {
            file,
            params: BTreeMap::new(),
            array: (count > 1).then_some(Indices { from: 1, to: count }),
            ..Default::default()
        };
        let submitted = self.ask(|client| {
            let submit = submit.clone();
            async move { client.submit(&submit).await }
        });
        Span {
            first: id(&submitted.first),
            last: id(&submitted.last),
        }
    }

    /// Submits a shell script.
    fn sh(&self, name: &str, script: &str) -> InstanceId {
        self.submit(json!({ "task": name, "run": script }), 1).first
    }

    /// One instance.
    fn instance(&self, id: InstanceId) -> Instance {
        self.ask(|client| async move { client.instance(id).await })
    }

    /// The timeline of one instance, as lines.
    fn timeline(&self, id: InstanceId) -> Vec<Event> {
        self.ask(|client| async move { client.timeline(id).await })
    }

    /// The number of instances of a range by state.
    fn states(&self, span: Span) -> BTreeMap<String, u64> {
        let summary = self.ask(|client| async move { client.range(span).await });
        let counts = summary.counts.into_iter();
        counts
            .map(|(state, count)| (state.word().to_owned(), count))
            .collect()
    }

    /// Waits until an instance has ended; returns it.
    fn finish(&self, id: InstanceId) -> Instance {
        until_some("an instance ends", || {
            let it = self.instance(id);
            it.state.is_terminal().then_some(it)
        })
    }

    /// A worker as the scheduler sees it, if it has a seat.
    fn worker(&self, name: &str) -> Option<Worker> {
        let workers = self.ask(|client| async move { client.workers().await });
        workers.into_iter().find(|it| it.name == name)
    }
}

impl Api for Cluster {
    fn scheduler_url(&self) -> &str {
        self.url()
    }
}

/// The id that a text names.
pub(crate) fn id(text: &str) -> InstanceId {
    let number = text.trim_start_matches('i').parse().expect("an id");
    InstanceId(number)
}
