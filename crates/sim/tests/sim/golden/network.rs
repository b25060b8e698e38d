//! Messages in flight. Nothing arrives unless the script delivers it; a message may arrive late,
//! twice or never.

use baton_model::message::{ToScheduler, ToWorker, WorkerAddress};

use super::render;

#[derive(Clone, Debug)]
pub(crate) enum Body {
    ToScheduler(ToScheduler),
    ToWorker(WorkerAddress, ToWorker),
}

impl Body {
    fn text(&self) -> String {
        match self {
            Self::ToScheduler(message) => render::to_scheduler(message),
            Self::ToWorker(_, message) => render::to_worker(message),
        }
    }
}

/// One message in flight.
#[derive(Clone, Debug)]
pub(crate) struct Flight {
    pub(crate) number: u32,
    pub(crate) from: String,
    pub(crate) to: String,
    pub(crate) body: Body,
    /// Skipped by commands that deliver everything.
    pub(crate) held: bool,
}

impl Flight {
    /// The line in the transcript.
    pub(crate) fn text(&self) -> String {
        format!(
            "{}: {} -> {}  {}",
            self.number,
            self.from,
            self.to,
            self.body.text()
        )
    }

    /// Sender, receiver and the call's name.
    fn kind(&self) -> String {
        let text = self.body.text();
        let call = text.split(' ').next().unwrap_or_default();
        format!("{} -> {} {call}", self.from, self.to)
    }

    /// True if every word of the pattern is a word of the message. A word may be the number of
    /// the message, `from->to`, or end in `*` for any suffix.
    fn matches(&self, pattern: &[&str]) -> bool {
        let text = self.body.text();
        let ends = format!("{}->{}", self.from, self.to);
        let number = self.number.to_string();
        let words: Vec<&str> = text
            .split([' ', '[', ']', '(', ')', ','])
            .chain([ends.as_str(), number.as_str()])
            .collect();
        pattern.iter().all(|wanted| {
            *wanted == "all"
                || words.iter().any(|word| match wanted.strip_suffix('*') {
                    Some(start) => word.starts_with(start),
                    None => word == wanted,
                })
        })
    }
}

/// The treatment of messages as they are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    Lost,
    Held,
}

/// The network between all parties.
#[derive(Debug, Default)]
pub(crate) struct Network {
    flights: Vec<Flight>,
    rules: Vec<(Vec<String>, Rule)>,
    last: u32,
}

/// The outcome of a send.
pub(crate) enum SendOutcome {
    InFlight(String),
    Lost(String),
}

impl Network {
    pub(crate) fn send(&mut self, from: &str, to: &str, body: Body) -> SendOutcome {
        let mut flight = Flight {
            number: self.last + 1,
            from: from.to_owned(),
            to: to.to_owned(),
            body,
            held: false,
        };
        match self.rule_for(&flight) {
            Some(Rule::Lost) => return SendOutcome::Lost(flight.kind()),
            Some(Rule::Held) => flight.held = true,
            None => {}
        }
        self.last += 1;
        let text = flight.text();
        self.flights.push(flight);
        SendOutcome::InFlight(text)
    }

    fn rule_for(&self, flight: &Flight) -> Option<Rule> {
        self.rules.iter().find_map(|(pattern, rule_for)| {
            let pattern: Vec<&str> = pattern.iter().map(String::as_str).collect();
            flight.matches(&pattern).then_some(*rule_for)
        })
    }

    /// Adds a rule for matching messages.
    pub(crate) fn rule(&mut self, pattern: &[&str], rule_for: Rule) {
        let pattern = pattern.iter().map(|word| (*word).to_owned()).collect();
        self.rules.push((pattern, rule_for));
    }

    /// Removes every rule. Held messages stay held.
    pub(crate) fn heal(&mut self) {
        self.rules.clear();
    }

    /// Returns the numbers of the matching messages; held ones only if no other matches, and
    /// only the earliest if the pattern begins with `first`.
    ///
    /// # Errors
    /// If none matches: a script that delivers nothing shows nothing.
    pub(crate) fn find(&self, pattern: &[&str]) -> Result<Vec<u32>, String> {
        let (first, words) = match pattern {
            ["first", rest @ ..] => (true, rest),
            _ => (false, pattern),
        };
        let matching = self.flights.iter().filter(|flight| flight.matches(words));
        let (held, free): (Vec<&Flight>, Vec<&Flight>) = matching.partition(|it| it.held);
        let found = if free.is_empty() { held } else { free };
        let most = if first { 1 } else { usize::MAX };
        let found: Vec<u32> = found.iter().map(|it| it.number).take(most).collect();
        if found.is_empty() {
            let flying: Vec<String> = self.flights.iter().map(Flight::text).collect();
            return Err(format!(
                "no message in flight matches \"{}\"; in flight:\n{}\n",
                pattern.join(" "),
                flying.join("\n")
            ));
        }
        Ok(found)
    }

    /// Removes a message in flight.
    pub(crate) fn take(&mut self, number: u32) -> Option<Flight> {
        let at = self.flights.iter().position(|it| it.number == number)?;
        Some(self.flights.remove(at))
    }

    /// The earliest message that is not held.
    pub(crate) fn next_free(&self) -> Option<u32> {
        self.flights.iter().find(|it| !it.held).map(|it| it.number)
    }

    pub(crate) fn hold(&mut self, numbers: &[u32], held: bool) {
        for flight in &mut self.flights {
            if numbers.contains(&flight.number) {
                flight.held = held;
            }
        }
    }

    /// Duplicates a message.
    pub(crate) fn duplicate(&mut self, number: u32) -> Option<String> {
        let mut copy = self.flights.iter().find(|it| it.number == number)?.clone();
        self.last += 1;
        copy.number = self.last;
        copy.held = true;
        let text = copy.text();
        self.flights.push(copy);
        Some(text)
    }

    /// All messages in flight.
    pub(crate) fn lines(&self) -> Vec<String> {
        let held = |flight: &Flight| if flight.held { " (held)" } else { "" };
        self.flights
            .iter()
            .map(|flight| format!("{}{}", flight.text(), held(flight)))
            .collect()
    }
}
