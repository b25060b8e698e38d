//! Readiness and health checks.

use super::{Fields, Item, Reader};
use crate::error::Kind;
use crate::file::{UnboundCheck, UnboundProbe};
use crate::schema::Object;
use crate::schema::process::{HTTP, TCP};
use crate::template::{Reference, Text};
use crate::tree::Value;

const PROBES: &[&str] = &["command", "http", "tcp"];
const PORT_HINT: &str = "write a port, such as 8080 or \"{{ ports.http }}\"";

impl Reader {
    /// `table` has the default timing.
    pub(super) fn check(
        &mut self,
        item: &Item<'_>,
        table: &'static Object,
    ) -> Option<UnboundCheck> {
        let fields = self.fields(item, table, |_| None)?;
        let probe = self.probe(&fields);
        let mut span = |name| self.duration_field(&fields, name).unwrap_or_default();
        let (delay, interval, timeout) = (span("delay"), span("interval"), span("timeout"));
        let mut count = |name| self.integer_field(&fields, name).unwrap_or_default();
        Some(UnboundCheck {
            delay,
            interval,
            timeout,
            successes_min: count("successes"),
            failures_max: count("failures"),
            probe: probe?,
        })
    }

    fn probe(&mut self, fields: &Fields<'_>) -> Option<UnboundProbe> {
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
            "command" => self.run(&item).map(UnboundProbe::Command),
            "http" => {
                let fields = self.fields(&item, &HTTP, |_| None)?;
                let path = match fields.get("path") {
                    Some(path) => self.template(&path, "write a path, such as /health")?,
                    None => Text::literal("/", &item),
                };
                let port = self.required_port(&fields)?;
                Some(UnboundProbe::Http { port, path })
            }
            _ if matches!(item.tree.value, Value::Map(_)) => {
                let fields = self.fields(&item, &TCP, |_| None)?;
                let port = self.required_port(&fields)?;
                Some(UnboundProbe::Tcp { port })
            }
            _ => self.port(&item).map(|port| UnboundProbe::Tcp { port }),
        }
    }

    /// A port may be a template; it must be a number after rendering.
    fn required_port(&mut self, fields: &Fields<'_>) -> Option<Text> {
        let Some(port) = fields.get("port") else {
            self.missing(fields, "port", PORT_HINT);
            return None;
        };
        self.port(&port)
    }

    fn port(&mut self, item: &Item<'_>) -> Option<Text> {
        let text = self.template(item, PORT_HINT)?;
        let is_runtime = |reference: &Reference| matches!(reference, Reference::Runtime(_));
        if let Some(reference) = text.references().find(|it| is_runtime(it)) {
            self.note(
                item,
                Kind::Template,
                format!("{reference} is known only at run time and cannot be a port"),
                "write the number, or a parameter",
            );
            return None;
        }
        Some(text)
    }
}
