//! Logs of a worker on this host that is not connected.

use std::fmt;
use std::sync::Arc;

use baton_model::message::{LogAnswer, LogQuery};

/// Reads logs without their worker.
#[derive(Clone)]
pub struct LogReader(Arc<dyn Fn(&LogQuery) -> LogAnswer + Send + Sync>);

impl LogReader {
    pub fn new(read: impl Fn(&LogQuery) -> LogAnswer + Send + Sync + 'static) -> Self {
        Self(Arc::new(read))
    }

    pub(crate) fn read(&self, query: &LogQuery) -> LogAnswer {
        (self.0)(query)
    }
}

impl fmt::Debug for LogReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LogReader")
    }
}
