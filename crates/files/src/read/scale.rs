//! What is different from attempt to attempt: how memory and timeout grow after they were too
//! little, and where a task goes after a failure.
//!
//! Whatever grows never gets less than the attempt before had, the first attempt of the task
//! included: that would be a mistake in the file, and is told.

use baton_model::placement::Constraint;
use baton_model::task::Resources;
use baton_model::time::Millis;

use super::scalars::Zero;
use super::{Item, Reader};
use crate::error::{Kind, quote};
use crate::limits::{FACTOR_MILLI_MAX, STEPS_MAX};
use crate::policy::{Growth, Scaling};
use crate::suggest;
use crate::tree::Value;

/// What an attempt can run out of.
const SCALED: &[&str] = &["memory", "timeout"];
const GROWTH_FIELDS: &[&str] = &["factor", "cap"];

const SCALE_HINT: &str = "write factors, such as { memory: 1.5, timeout: 2 }";
const MEMORY_HINT: &str =
    "write a factor such as 1.5, a list such as [2GiB, 8GiB], or { factor: 1.5, cap: 8GiB }";
const TIMEOUT_HINT: &str =
    "write a factor such as 2, a list such as [1h, 4h], or { factor: 2, cap: 4h }";
const FALLBACK_HINT: &str = "write a list of constraints, such as [{ pool: big }, { pool: huge }]";

/// What the first attempt of a task may use.
pub(super) struct FirstAttempt {
    /// The most that it may have of it; 0 where it asks for none.
    memory: u64,
    timeout: Option<Millis>,
}

impl FirstAttempt {
    pub(super) fn of(resources: &Resources, timeout: Option<Millis>) -> Self {
        Self {
            memory: resources.memory_max.max(resources.memory_min),
            timeout,
        }
    }
}

/// How one of the things that grow is read and told.
struct ScaledQuantity<T> {
    read: fn(&mut Reader, &Item<'_>) -> Option<T>,
    show: fn(T) -> String,
    hint: &'static str,
}

impl Reader {
    pub(super) fn scale(&mut self, item: &Item<'_>, first: &FirstAttempt) -> Scaling {
        let mut scale = Scaling::default();
        for (name, value, position) in self.entries(item, SCALE_HINT) {
            match name {
                "memory" => {
                    let quantity = ScaledQuantity {
                        read: Self::whole_size,
                        show: bytes,
                        hint: MEMORY_HINT,
                    };
                    let first = (first.memory > 0).then_some(first.memory);
                    scale.memory = self.growth(&value, &quantity, first);
                }
                "timeout" => {
                    let quantity = ScaledQuantity {
                        read: |reader, item| reader.duration(item, Zero::Refused),
                        show: |span: Millis| span.to_string(),
                        hint: TIMEOUT_HINT,
                    };
                    scale.timeout = self.growth(&value, &quantity, first.timeout);
                }
                name => {
                    let names = SCALED.iter().copied();
                    let mut problem = value.problem(
                        Kind::UnknownField,
                        format!("{} does not grow from attempt to attempt", quote(name)),
                        suggest::hint(self.problems.len(), name, names, "these do:"),
                    );
                    problem.position = position;
                    self.problems.push(problem);
                }
            }
        }
        scale
    }

    /// Where a task may run after its first failure, its second, and so on.
    pub(super) fn fallback(&mut self, item: &Item<'_>) -> Vec<Vec<Constraint>> {
        let fallbacks = self.steps(item, FALLBACK_HINT);
        fallbacks
            .iter()
            .map(|item| self.constraints(item))
            .collect()
    }

    /// A factor, a list of what there is after running out once, twice, and so on, or a factor
    /// with a cap. `first` is what there was before.
    fn growth<T: Copy + PartialOrd>(
        &mut self,
        item: &Item<'_>,
        quantity: &ScaledQuantity<T>,
        first: Option<T>,
    ) -> Option<Growth<T>> {
        match &item.tree.value {
            Value::Number(_) => {
                let milli = self.factor(item, 1_000, FACTOR_MILLI_MAX)?;
                Some(Growth::Factor { milli, cap: None })
            }
            Value::List(_) => self.growing(item, quantity, first).map(Growth::Steps),
            Value::Map(_) => self.capped(item, quantity, first),
            Value::Null | Value::Bool(_) | Value::String(_) => {
                self.wrong_type(item, "a factor, a list or a map", quantity.hint);
                None
            }
        }
    }

    fn growing<T: Copy + PartialOrd>(
        &mut self,
        item: &Item<'_>,
        quantity: &ScaledQuantity<T>,
        first: Option<T>,
    ) -> Option<Vec<T>> {
        let items = self.steps(item, quantity.hint);
        let mut steps = Vec::with_capacity(items.len());
        let mut before = first;
        for item in &items {
            let step = (quantity.read)(self, item)?;
            if let Some(before) = before.filter(|before| step < *before) {
                let whose = if steps.is_empty() {
                    "what the task has at first"
                } else {
                    "the one before it"
                };
                let (step, before) = ((quantity.show)(step), (quantity.show)(before));
                self.note(
                    item,
                    Kind::OutOfRange,
                    format!("{step} is less than {whose} ({before})"),
                    "write what grows: each at least as much as the one before",
                );
                return None;
            }
            before = Some(step);
            steps.push(step);
        }
        (!steps.is_empty()).then_some(steps)
    }

    fn capped<T: Copy + PartialOrd>(
        &mut self,
        item: &Item<'_>,
        quantity: &ScaledQuantity<T>,
        first: Option<T>,
    ) -> Option<Growth<T>> {
        let fields = self.fields(item, "a growth", GROWTH_FIELDS, |_| None)?;
        let Some(factor) = fields.get("factor") else {
            self.missing(&fields, "factor", "write the factor, such as `factor: 1.5`");
            return None;
        };
        let milli = self.factor(&factor, 1_000, FACTOR_MILLI_MAX);
        let cap = match fields.get("cap") {
            Some(item) => {
                let cap = (quantity.read)(self, &item)?;
                if let Some(first) = first.filter(|first| cap < *first) {
                    let (cap, first) = ((quantity.show)(cap), (quantity.show)(first));
                    self.note(
                        &item,
                        Kind::OutOfRange,
                        format!("the cap ({cap}) is below what the task has at first ({first})"),
                        "write a higher cap, or let the task begin with less",
                    );
                    return None;
                }
                Some(cap)
            }
            None => None,
        };
        Some(Growth::Factor { milli: milli?, cap })
    }

    /// A list of at least one step, and not too many.
    fn steps<'a>(&mut self, item: &Item<'a>, hint: &str) -> Vec<Item<'a>> {
        let items = self.list(item, hint);
        if items.is_empty() && matches!(item.tree.value, Value::List(_)) {
            let message = "the list is empty".to_owned();
            self.note(item, Kind::BadValue, message, hint);
        }
        if items.len() > STEPS_MAX {
            let message = format!("these are {} steps, of {STEPS_MAX} allowed", items.len());
            let hint = "leave some out: the last one stays";
            self.note(item, Kind::TooLarge, message, hint);
            return Vec::new();
        }
        items
    }

    fn whole_size(&mut self, item: &Item<'_>) -> Option<u64> {
        let size = self.size(item)?;
        if size == 0 {
            let message = "no memory at all is too little for anything".to_owned();
            let hint = "write a size such as 256MiB";
            self.note(item, Kind::OutOfRange, message, hint);
            return None;
        }
        Some(size)
    }
}

/// A size as a person would write it, if it is a whole number of some unit.
fn bytes(size: u64) -> String {
    let units = [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")];
    let whole = units
        .iter()
        .find(|(shift, _)| size.is_multiple_of(1 << shift));
    match whole {
        Some((shift, unit)) => format!("{}{unit}", size >> shift),
        None => format!("{size}B"),
    }
}
