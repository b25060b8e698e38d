//! Readiness and health checks.

use baton_model::task::{Check, Probe};

use super::{Fields, Item, Reader};
use crate::error::Kind;
use crate::schema::Object;
use crate::schema::process::{HTTP, TCP};
use crate::tree::Value;

const PROBES: &[&str] = &["command", "http", "tcp"];
const PORT_HINT: &str = "write a port, such as 8080 or \"{{ ports.http }}\"";

impl Reader {
    /// `table` has the default timing.
    pub(super) fn check(&mut self, item: &Item<'_>, table: &'static Object) -> Option<Check> {
        let fields = self.fields(item, table, |_| None)?;
        let probe = self.probe(&fields);
        let mut span = |name| self.duration_field(&fields, name).unwrap_or_default();
        let (delay, interval, timeout) = (span("delay"), span("interval"), span("timeout"));
        let mut count = |name| self.integer_field(&fields, name).unwrap_or_default();
        Some(Check {
            delay,
            interval,
            timeout,
            successes_min: count("successes"),
            failures_max: count("failures"),
            probe: probe?,
        })
    }

    fn probe(&mut self, fields: &Fields<'_>) -> Option<Probe> {
        let probes: Vec<&str> = PROBES
            .iter()
            .copied()
            .filter(|name| fields.has(name))
            .collect();
        let [name] = probes[..] else {
            let message = match probes.first() {
                None => "the check has no probe".to_owned(),
                Some(_) => format!(
                    "the check has more than one probe: {}",
                    probes.join(" and ")
                ),
            };
            self.problems.push(fields.item.problem(
                if probes.is_empty() {
                    Kind::MissingField
                } else {
                    Kind::Conflict
                },
                message,
                "write exactly one of `command`, `http` and `tcp`",
            ));
            return None;
        };
        let item = fields.get(name)?;
        match name {
            "command" => self.run(&item).map(Probe::Command),
            "http" => {
                let fields = self.fields(&item, &HTTP, |_| None)?;
                let path = match fields.get("path") {
                    Some(path) => self.http_path(&path)?,
                    None => "/".to_owned(),
                };
                let port = self.required_port(&fields)?;
                Some(Probe::Http { port, path })
            }
            _ if matches!(item.tree.value, Value::Map(_)) => {
                let fields = self.fields(&item, &TCP, |_| None)?;
                let port = self.required_port(&fields)?;
                Some(Probe::Tcp { port })
            }
            _ => self.port(&item, PORT_HINT).map(|port| Probe::Tcp { port }),
        }
    }

    fn required_port(&mut self, fields: &Fields<'_>) -> Option<u16> {
        let Some(port) = fields.get("port") else {
            self.missing(fields, "port", PORT_HINT);
            return None;
        };
        self.port(&port, PORT_HINT)
    }
}
