//! The suggestion for the requests of a task, as lines of its file and as sentences.

use baton_core::sizing::{ATTEMPTS_MIN, Advice, Finding, Sizing};
use baton_model::measurement::Requested;
use baton_model::task::Resources;

use crate::units::{duration_text, size_text};

/// Requests that suit a task better than its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SizingText {
    /// Lines for its file, of YAML; none if its requests suit it, or nothing can be said.
    pub lines: Vec<String>,
    /// A sentence for each request, or the one reason for which there is no suggestion.
    pub reasons: Vec<String>,
}

impl SizingText {
    #[must_use]
    pub fn new(requested: &Requested, sizing: &Sizing) -> Self {
        let mut text = Self::default();
        if requested.nodes > 1 {
            let reason = "no suggestion: it takes several nodes, and only the first is measured";
            text.reasons.push(reason.to_owned());
            return text;
        }
        text.resources(requested, sizing);
        if let Some(advice) = &sizing.time_request {
            let has_request = requested.time_request.or(requested.timeout).is_some();
            let asked = requested.time_request.or(requested.timeout);
            let asked = asked.filter(|_| has_request).map(duration_text);
            let amount = duration_text(advice.amount);
            text.field("time_request", advice.finding, asked, &amount);
        }
        if let Some(advice) = &sizing.timeout {
            let asked = requested.timeout.map(duration_text);
            text.field(
                "timeout",
                advice.finding,
                asked,
                &duration_text(advice.amount),
            );
        }
        if sizing.has_too_few() {
            let succeeded = sizing.succeeded;
            let reason =
                format!("too few attempts: {succeeded} of at least {ATTEMPTS_MIN} have succeeded");
            text.reasons.push(reason);
        }
        text
    }

    fn resources(&mut self, requested: &Requested, sizing: &Sizing) {
        let mut resources = requested.resources.clone();
        let before = memory_text(&resources);
        let is_wrong = |finding| finding != Finding::Suits;
        let mut is_changed = false;
        if let Some(Advice { amount, finding }) = sizing.cpu {
            let asked = (resources.cpu_milli > 0).then(|| decimal(resources.cpu_milli));
            self.reason("cpu", finding, asked, &decimal(amount));
            if is_wrong(finding) {
                resources.cpu_milli = amount;
                is_changed = true;
            }
        }
        if let Some(Advice { amount, finding }) = sizing.memory_range {
            let suggested = Resources {
                memory_min: amount.0,
                memory_max: amount.1,
                ..Resources::default()
            };
            let suggested = memory_text(&suggested).unwrap_or_default();
            self.reason("memory", finding, before, &suggested);
            if is_wrong(finding) {
                (resources.memory_min, resources.memory_max) = amount;
                is_changed = true;
            }
        }
        if is_changed {
            self.lines.push(resources_line(&resources));
        }
    }

    fn field(&mut self, name: &str, finding: Finding, asked: Option<String>, amount: &str) {
        self.reason(name, finding, asked, amount);
        if finding != Finding::Suits {
            self.lines.push(format!("{name}: {amount}"));
        }
    }

    fn reason(&mut self, name: &str, finding: Finding, asked: Option<String>, amount: &str) {
        let asked = asked.unwrap_or_else(|| "none".to_owned());
        let reason = match finding {
            Finding::Suits => format!("{name}: {asked} suits"),
            Finding::TooMuch => format!("{name}: {asked} is too much, {amount} is enough"),
            Finding::TooLittle => {
                format!("{name}: {asked} is less than it uses, {amount} is enough")
            }
            Finding::Missing => format!("{name}: none is requested, {amount} is enough"),
            Finding::Exceeded(1) => format!("{name}: 1 attempt ran out of it, with {asked}"),
            Finding::Exceeded(count) => {
                format!("{name}: {count} attempts ran out of it, with {asked}")
            }
        };
        self.reasons.push(reason);
    }
}

/// The resources of a task as a line of its file.
fn resources_line(resources: &Resources) -> String {
    let mut fields = Vec::new();
    let mut add = |name: &str, value: String| fields.push(format!("{name}: {value}"));
    if resources.cpu_milli > 0 {
        add("cpu", decimal(resources.cpu_milli));
    }
    if let Some(memory) = memory_text(resources) {
        add("memory", memory);
    }
    if resources.disk > 0 {
        add("disk", size_text(resources.disk));
    }
    if resources.gpu.milli() > 0 {
        add("gpu", resources.gpu.to_string());
    }
    for (name, amount) in &resources.named {
        add(name, amount.to_string());
    }
    if let Some(pin) = resources.pin {
        add("pin", pin.to_string());
    }
    format!("resources: {{ {} }}", fields.join(", "))
}

/// The memory of a task as its file has it; none if it requests none.
fn memory_text(resources: &Resources) -> Option<String> {
    let (min, max) = (resources.memory_min, resources.memory_max);
    match (min, max) {
        (0, 0) => None,
        (min, 0) => Some(format!("{}..", size_text(min))),
        (min, max) if min == max => Some(size_text(min)),
        (min, max) => Some(format!("{}..{}", size_text(min), size_text(max))),
    }
}

/// A number of thousandths: `2`, or `0.5`.
fn decimal(milli: u64) -> String {
    let rest = format!(".{:03}", milli % 1_000);
    format!(
        "{}{}",
        milli / 1_000,
        rest.trim_end_matches('0').trim_end_matches('.')
    )
}

#[cfg(test)]
mod tests {
    use baton_core::sizing::Sizing;
    use baton_model::device::DeviceAmount;
    use baton_model::measurement::{MeasuredEnd, Measurement};
    use baton_model::time::{Millis, Wall};

    use super::*;
    use crate::{Binding, Format, parse};

    const MIB: u64 = 1 << 20;

    fn measured(count: usize, mib: u64, end: MeasuredEnd) -> Vec<Measurement> {
        let attempt = Measurement {
            at: Wall(0),
            elapsed: Millis::from_secs(800),
            cpu: Millis::from_secs(700),
            memory_peak: mib * MIB,
            end,
        };
        vec![attempt; count]
    }

    fn text(requested: &Requested, measured: &[Measurement]) -> SizingText {
        SizingText::new(requested, &Sizing::new(requested, measured))
    }

    fn generous() -> Requested {
        let mut requested = Requested {
            nodes: 1,
            ..Requested::default()
        };
        requested.resources.cpu_milli = 8_000;
        requested.resources.memory_min = 4_096 * MIB;
        requested.resources.memory_max = 8_192 * MIB;
        requested
    }

    #[test]
    fn lines_can_be_put_into_the_file() {
        let mut requested = generous();
        requested.resources.gpu = DeviceAmount::from_milli(1_500);
        requested.resources.named.insert("db/orders".to_owned(), 2);
        let mut attempts = measured(98, 240, MeasuredEnd::Done);
        attempts.extend(measured(2, 500, MeasuredEnd::Done));
        let text = text(&requested, &attempts);
        assert_eq!(
            text.lines,
            [
                "resources: { cpu: 1, memory: 300MiB..600MiB, gpu: 1.5, db/orders: 2 }",
                "time_request: 20m",
            ]
        );
        assert_eq!(
            text.reasons,
            [
                "cpu: 8 is too much, 1 is enough",
                "memory: 4GiB..8GiB is too much, 300MiB..600MiB is enough",
                "time_request: none is requested, 20m is enough",
            ]
        );
        let lines = text.lines.join("\n").replace("1.5", "1");
        let file = format!("task: t\nrun: echo\n{lines}\n");
        let file = parse(&file, Format::Yaml, "t.yaml").expect("the lines are valid");
        let task = file.bind(&Binding::default()).expect("the lines are valid");
        assert_eq!(task.resources.cpu_milli, 1_000);
        assert_eq!(task.resources.memory_min, 300 * MIB);
        assert_eq!(task.resources.memory_max, 600 * MIB);
    }

    #[test]
    fn suitable_requests_have_no_lines() {
        let mut requested = generous();
        requested.resources.cpu_milli = 1_000;
        requested.resources.memory_min = 300 * MIB;
        requested.resources.memory_max = 300 * MIB;
        requested.time_request = Some(Millis::from_secs(1_200));
        let text = text(&requested, &measured(10, 240, MeasuredEnd::Done));
        assert!(text.lines.is_empty(), "{text:?}");
        assert_eq!(text.reasons[1], "memory: 300MiB suits");
        assert_eq!(text.reasons[2], "time_request: 20m suits");
    }

    #[test]
    fn too_few_attempts_say_so() {
        let few = measured(3, 240, MeasuredEnd::Done);
        let reason = "too few attempts: 3 of at least 5 have succeeded";
        assert_eq!(text(&generous(), &few).reasons, [reason]);
        let out = measured(2, 240, MeasuredEnd::OutOfMemory);
        let text = text(&generous(), &out);
        assert_eq!(text.lines, ["resources: { cpu: 8, memory: 4GiB..12GiB }"]);
        let reason = "memory: 2 attempts ran out of it, with 4GiB..8GiB";
        assert_eq!(text.reasons[0], reason);
    }

    #[test]
    fn gangs_have_no_suggestion() {
        let gang = Requested {
            nodes: 2,
            ..generous()
        };
        let text = text(&gang, &measured(10, 240, MeasuredEnd::Done));
        assert!(text.lines.is_empty());
        assert!(text.reasons[0].contains("several nodes"));
    }
}
