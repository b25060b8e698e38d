//! Changes between attempts: scaling of requests and timeout after an attempt ran out of one of them,
//! and fallback constraints after a failure.
//!
//! A scaled value never decreases, starting with the first attempt: a decrease is reported as a
//! mistake.

use baton_model::device::DeviceAmount;
use baton_model::placement::Constraint;
use baton_model::task::Resources;
use baton_model::time::Millis;

use super::{Item, Reader};
use crate::error::{Kind, quote};
use crate::limits::{CPU_MILLI_MAX, FACTOR_MILLI_MAX, GPU_MILLI_MAX, STEPS_MAX};
use crate::policy::{Growth, Scaling};
use crate::schema::task::{CPU_GROWTH, GPU_GROWTH, MEMORY_GROWTH, SCALE, TIMEOUT_GROWTH};
use crate::schema::{Object, Zero};
use crate::suggest;
use crate::tree::Value;
use crate::units;

const SCALE_HINT: &str = "write factors, such as { memory: 1.5, timeout: 2 }";
const MEMORY_HINT: &str =
    "write a factor such as 1.5, a list such as [2GiB, 8GiB], or { factor: 1.5, cap: 8GiB }";
const TIMEOUT_HINT: &str =
    "write a factor such as 2, a list such as [1h, 4h], or { factor: 2, cap: 4h }";
const CPU_HINT: &str = "write a factor such as 2, a list such as [2, 8], or { factor: 2, cap: 8 }";
const FALLBACK_HINT: &str = "write a list of constraints, such as [{ pool: big }, { pool: huge }]";

/// Limits of the first attempt of a task.
pub(super) struct FirstAttempt {
    /// The maximum in bytes; 0 without a request.
    memory: u64,
    timeout: Option<Millis>,
    cpu: Option<u64>,
    disk: u64,
    gpu: u64,
    time_request: Option<Millis>,
}

impl FirstAttempt {
    pub(super) fn of(
        resources: &Resources,
        timeout: Option<Millis>,
        time_request: Option<Millis>,
    ) -> Self {
        Self {
            memory: resources.memory_max.max(resources.memory_min),
            timeout,
            cpu: Some(resources.cpu_milli).filter(|milli| *milli > 0),
            disk: resources.disk,
            gpu: resources.gpu.milli(),
            time_request: time_request.or(timeout),
        }
    }
}

/// Parser and formatter of one scaled value.
struct ScaledQuantity<T> {
    read: fn(&mut Reader, &Item<'_>) -> Option<T>,
    show: fn(T) -> String,
    hint: &'static str,
    table: &'static Object,
}

/// Times, such as `timeout`.
const SPANS: ScaledQuantity<Millis> = ScaledQuantity {
    read: |reader, item| reader.duration(item, Zero::Refused),
    show: |span| span.to_string(),
    hint: TIMEOUT_HINT,
    table: &TIMEOUT_GROWTH,
};

impl Reader {
    pub(super) fn scale(&mut self, item: &Item<'_>, first: &FirstAttempt) -> Scaling {
        let mut scale = Scaling::default();
        for (name, value, position) in self.entries(item, SCALE_HINT) {
            match name {
                "memory" => {
                    let quantity = ScaledQuantity {
                        read: Self::whole_size,
                        show: units::size_text,
                        hint: MEMORY_HINT,
                        table: &MEMORY_GROWTH,
                    };
                    let first = (first.memory > 0).then_some(first.memory);
                    scale.memory = self.growth(&value, &quantity, first);
                }
                "disk" => {
                    let quantity = ScaledQuantity {
                        read: Self::whole_size,
                        show: units::size_text,
                        hint: MEMORY_HINT,
                        table: &MEMORY_GROWTH,
                    };
                    let first = (first.disk > 0).then_some(first.disk);
                    scale.disk = self.growth(&value, &quantity, first);
                }
                "cpu" => {
                    let quantity = ScaledQuantity {
                        read: |reader, item| reader.factor(item, 1, CPU_MILLI_MAX),
                        show: thousandths,
                        hint: CPU_HINT,
                        table: &CPU_GROWTH,
                    };
                    scale.cpu = self.growth(&value, &quantity, first.cpu);
                }
                "gpu" => {
                    let quantity = ScaledQuantity {
                        read: |reader, item| {
                            let milli = reader.factor(item, 1, GPU_MILLI_MAX)?;
                            reader.requestable(item, milli).map(DeviceAmount::milli)
                        },
                        show: thousandths,
                        hint: CPU_HINT,
                        table: &GPU_GROWTH,
                    };
                    let first = (first.gpu > 0).then_some(first.gpu);
                    scale.gpu = self.growth(&value, &quantity, first);
                }
                "time_request" => {
                    scale.time_request = self.growth(&value, &SPANS, first.time_request);
                }
                "timeout" => {
                    scale.timeout = self.growth(&value, &SPANS, first.timeout);
                }
                name => {
                    let names = SCALE.names();
                    let mut problem = value.problem(
                        Kind::UnknownField,
                        format!("{} cannot be scaled between attempts", quote(name)),
                        suggest::hint(self.problems.len(), name, names, "these can:"),
                    );
                    problem.position = position;
                    self.problems.push(problem);
                }
            }
        }
        scale
    }

    /// Reads the constraints after the first failure, the second, and so on.
    pub(super) fn fallback(&mut self, item: &Item<'_>) -> Vec<Vec<Constraint>> {
        let fallbacks = self.steps(item, FALLBACK_HINT);
        fallbacks
            .iter()
            .map(|item| self.constraints(item))
            .collect()
    }

    /// Reads a factor, a list of values after running out once, twice, and so on, or a factor
    /// with a cap. `first` is the value of the first attempt.
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
                    "the value of the first attempt"
                } else {
                    "the previous step"
                };
                let (step, before) = ((quantity.show)(step), (quantity.show)(before));
                self.note(
                    item,
                    Kind::OutOfRange,
                    format!("{step} is less than {whose} ({before})"),
                    "make each step at least as large as the one before",
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
        let fields = self.fields(item, quantity.table, |_| None)?;
        if !fields.has("factor") {
            self.missing(&fields, "factor", "add the factor, such as `factor: 1.5`");
            return None;
        }
        let milli = self.factor_field(&fields, "factor");
        let cap = match fields.get("cap") {
            Some(item) => {
                let cap = (quantity.read)(self, &item)?;
                if let Some(first) = first.filter(|first| cap < *first) {
                    let (cap, first) = ((quantity.show)(cap), (quantity.show)(first));
                    self.note(
                        &item,
                        Kind::OutOfRange,
                        format!(
                            "the cap ({cap}) is below the value of the first attempt ({first})"
                        ),
                        "raise the cap, or lower the value of the first attempt",
                    );
                    return None;
                }
                Some(cap)
            }
            None => None,
        };
        Some(Growth::Factor { milli: milli?, cap })
    }

    /// Reads a non-empty list of at most `STEPS_MAX` steps.
    pub(super) fn steps<'a>(&mut self, item: &Item<'a>, hint: &str) -> Vec<Item<'a>> {
        let items = self.list(item, hint);
        if items.is_empty() && matches!(item.tree.value, Value::List(_)) {
            let message = "the list is empty".to_owned();
            self.note(item, Kind::BadValue, message, hint);
        }
        if items.len() > STEPS_MAX {
            let message = format!(
                "{} steps are listed, at most {STEPS_MAX} are allowed",
                items.len()
            );
            let hint = "remove some steps: the last one applies to all further attempts";
            self.note(item, Kind::TooLarge, message, hint);
            return Vec::new();
        }
        items
    }

    fn whole_size(&mut self, item: &Item<'_>) -> Option<u64> {
        let size = self.size(item)?;
        if size == 0 {
            let message = "the size is zero".to_owned();
            let hint = "write a size such as 256MiB";
            self.note(item, Kind::OutOfRange, message, hint);
            return None;
        }
        Some(size)
    }
}

fn thousandths(milli: u64) -> String {
    DeviceAmount::from_milli(milli).to_string()
}
