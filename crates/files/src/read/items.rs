//! What a task of a workflow has one instance for each of: `for_each` and `matrix`.
//!
//! Whatever a file asks for is counted before it is made, so that a short one cannot fill a
//! host's memory.

use std::collections::BTreeSet;

use baton_core::workflow::items;
use baton_model::limits::RUN_ITEMS_MAX;
use baton_model::workflow::{Axis, Items};

use super::{Fields, Item, Reader};
use crate::error::{Kind, quote};
use crate::source;
use crate::template::{self, Later, is_name};
use crate::tree::{Tree, Value};
use crate::workflow::{DraftItems, Keys};

const FOR_EACH_MEND: &str = "write a list, a range such as { range: [0, 10] } or \"0..10\", { product: … }, or \
                             \"{{ tasks.NAME.outputs.KEY }}\"";
const RANGE_MEND: &str = "write [FIRST, END] or [FIRST, END, STEP]: { range: [0, 10] } has 0 to 9";
const AXES_MEND: &str =
    "write names with their values, such as { os: [linux, bsd], n: { range: [0, 3] } }";
const TOO_MANY_MEND: &str = "let each item do more, or make several runs of it";

/// What a workflow has had so far of what is bounded as a whole.
#[derive(Debug, Default)]
pub(super) struct Totals {
    /// Items of all tasks.
    pub(super) items: u64,
    /// Values of all axes, which are many even where one of them is empty.
    axis_values: u64,
    /// Bytes that were taken from defaults and templates.
    pub(super) taken_bytes: usize,
}

/// Numbers from the first, in steps.
struct Span {
    first: i64,
    step: i64,
    count: u64,
}

impl Span {
    /// The numbers before `end`; `None` if they lead away from it.
    fn new(first: i64, end: i64, step: i64) -> Option<Self> {
        let distance = i128::from(end) - i128::from(first);
        let pace = i128::from(step);
        if pace == 0 || distance.signum() * pace.signum() < 0 {
            return None;
        }
        let count = (distance.abs() + pace.abs() - 1) / pace.abs();
        Some(Self {
            first,
            step,
            count: u64::try_from(count).unwrap_or(u64::MAX),
        })
    }
}

/// The values of an axis, not yet made.
enum Values<'a> {
    Listed(&'a [Tree]),
    Counted(Span),
}

impl Reader {
    /// The items of a task.
    pub(super) fn items(&mut self, fields: &Fields<'_>) -> DraftItems {
        let mut draft = DraftItems {
            items: Items::One,
            from: None,
            keys: Keys::NoItem,
            place: fields.item.place(),
        };
        // Until they are read: nobody need be told what follows from a mistake in them.
        if fields.has("for_each") || fields.has("matrix") {
            draft.keys = Keys::Unknown;
        }
        match (fields.get("for_each"), fields.get("matrix")) {
            (Some(_), Some(_)) => self.problems.push(fields.key_problem(
                "matrix",
                Kind::Conflict,
                "a task has either `for_each` or `matrix`".to_owned(),
                "write both as one product: for_each: { product: { NAME: …, NAME: … } }",
            )),
            (Some(item), None) => {
                draft.place = item.place();
                self.for_each(&item, &mut draft);
            }
            (None, Some(item)) => {
                draft.place = item.place();
                self.product(&item, &mut draft);
            }
            (None, None) => self.totals.items += 1,
        }
        draft
    }

    fn for_each(&mut self, item: &Item<'_>, draft: &mut DraftItems) {
        match &item.tree.value {
            Value::List(values) => {
                if self.has_room(item, values.len() as u64) {
                    draft.keys = common_keys(values);
                    draft.items = Items::Values(self.item_values(item, values));
                }
            }
            Value::String(text) if text.contains("{{") => self.output(item, text, draft),
            Value::Map(_) => {
                let known = &["range", "product"];
                let before = self.problems.len();
                let Some(fields) = self.fields(item, "for_each", known, |_| None) else {
                    return;
                };
                match (fields.get("range"), fields.get("product")) {
                    (Some(_), None) => self.counted(item, draft),
                    (None, Some(axes)) => self.product(&axes, draft),
                    _ if self.problems.len() > before => {}
                    _ => {
                        let message = "for_each has either `range` or `product`".to_owned();
                        self.note(item, Kind::Conflict, message, FOR_EACH_MEND);
                    }
                }
            }
            Value::String(_) => self.counted(item, draft),
            _ => self.wrong_type(item, "a list or a range", FOR_EACH_MEND),
        }
    }

    fn counted(&mut self, item: &Item<'_>, draft: &mut DraftItems) {
        let Some(span) = self.span(item) else { return };
        if self.has_room(item, span.count) {
            draft.keys = Keys::Whole;
            draft.items = Items::Range {
                first: span.first,
                step: span.step,
                count: u32::try_from(span.count).unwrap_or(u32::MAX),
            };
        }
    }

    /// `{{ tasks.NAME.outputs.KEY }}` alone.
    fn output(&mut self, item: &Item<'_>, text: &str, draft: &mut DraftItems) {
        let inside = text.trim().strip_prefix("{{");
        let inside = inside.and_then(|rest| rest.strip_suffix("}}"));
        match inside.map(Later::parse) {
            Some(Ok(Later::Output { task, key })) if !key.contains("{{") => {
                self.totals.items += 1;
                draft.keys = Keys::Unknown;
                draft.from = Some(task);
                draft.items = Items::Output { task: 0, key };
            }
            _ => {
                let message = format!("{} is no list of values", quote(text));
                self.note(item, Kind::Template, message, FOR_EACH_MEND);
            }
        }
    }

    fn product(&mut self, item: &Item<'_>, draft: &mut DraftItems) {
        let before = self.problems.len();
        let mut axes = Vec::new();
        for (name, value, position) in self.entries(item, AXES_MEND) {
            if !is_name(name) {
                let mut problem = value.problem(
                    Kind::BadName,
                    format!("{} is no name for values", quote(name)),
                    "write letters, digits, `_` and `-`",
                );
                problem.position = position;
                self.problems.push(problem);
            } else if let Some(values) = self.axis(&value) {
                axes.push((name, value, values));
            }
        }
        if self.problems.len() > before {
            return;
        }
        if axes.is_empty() {
            let message = "there is nothing to combine".to_owned();
            self.note(item, Kind::BadValue, message, AXES_MEND);
            return;
        }
        // Not every format keeps the order of a map, and the numbers of items depend on it.
        axes.sort_by_key(|(name, ..)| *name);
        let lengths = || axes.iter().map(|(.., values)| values.len());
        let values = lengths().fold(self.totals.axis_values, u64::saturating_add);
        if values > RUN_ITEMS_MAX {
            let message = format!("all axes together have more than {RUN_ITEMS_MAX} values");
            self.note(item, Kind::TooLarge, message, TOO_MANY_MEND);
            return;
        }
        self.totals.axis_values = values;
        if !self.has_room(item, lengths().fold(1, u64::saturating_mul)) {
            return;
        }
        draft.keys = Keys::Of(axes.iter().map(|(name, ..)| (*name).to_owned()).collect());
        let axes = axes.into_iter().map(|(name, item, values)| Axis {
            name: name.to_owned(),
            values: match values {
                Values::Listed(trees) => self.item_values(&item, trees),
                Values::Counted(span) => numbers(&span),
            },
        });
        draft.items = Items::Product(axes.collect());
    }

    fn axis<'a>(&mut self, item: &Item<'a>) -> Option<Values<'a>> {
        match &item.tree.value {
            Value::List(values) => Some(Values::Listed(values)),
            Value::String(_) | Value::Map(_) => self.span(item).map(Values::Counted),
            _ => {
                self.wrong_type(item, "a list or a range", AXES_MEND);
                None
            }
        }
    }

    /// `{ range: [0, 10, 2] }` or `"0..10"`.
    fn span(&mut self, item: &Item<'_>) -> Option<Span> {
        if let Value::String(text) = &item.tree.value {
            let ends = text.split_once("..").and_then(|(first, end)| {
                Some((first.trim().parse().ok()?, end.trim().parse().ok()?))
            });
            let Some((first, end)) = ends else {
                let message = format!("{} is no range", quote(text));
                self.note(item, Kind::BadValue, message, FOR_EACH_MEND);
                return None;
            };
            return self.forward(item, first, end, 1);
        }
        let fields = self.fields(item, "a range", &["range"], |_| None)?;
        let Some(range) = fields.get("range") else {
            self.missing(&fields, "range", RANGE_MEND);
            return None;
        };
        let items = self.list(&range, RANGE_MEND);
        let numbers: Vec<i64> = items
            .iter()
            .filter_map(|item| self.integer(item, i64::MIN, i64::MAX))
            .collect();
        if numbers.len() < items.len() || !matches!(range.tree.value, Value::List(_)) {
            return None;
        }
        match numbers[..] {
            [first, end] => self.forward(&range, first, end, 1),
            [first, end, step] => self.forward(&range, first, end, step),
            _ => {
                let message = format!("a range has two or three numbers, not {}", numbers.len());
                self.note(&range, Kind::BadValue, message, RANGE_MEND);
                None
            }
        }
    }

    fn forward(&mut self, item: &Item<'_>, first: i64, end: i64, step: i64) -> Option<Span> {
        let span = Span::new(first, end, step);
        if span.is_none() {
            let message = format!("steps of {step} do not lead from {first} to {end}");
            self.note(item, Kind::OutOfRange, message, RANGE_MEND);
        }
        span
    }

    /// Takes room for this many items; false if there is none.
    fn has_room(&mut self, item: &Item<'_>, count: u64) -> bool {
        let items = self.totals.items.saturating_add(count);
        if items <= RUN_ITEMS_MAX {
            self.totals.items = items;
            return true;
        }
        let message =
            format!("with these {count} items the workflow has more than {RUN_ITEMS_MAX}");
        self.note(item, Kind::TooLarge, message, TOO_MANY_MEND);
        false
    }

    /// Values as a plan has them.
    fn item_values(&mut self, item: &Item<'_>, trees: &[Tree]) -> Vec<String> {
        let mut values = Vec::with_capacity(trees.len());
        for (index, tree) in trees.iter().enumerate() {
            self.no_templates(item, index, tree);
            values.push(source::of_value(tree).to_string());
        }
        values
    }

    fn no_templates(&mut self, item: &Item<'_>, index: usize, tree: &Tree) {
        match &tree.value {
            Value::String(text) if text.contains("{{") => {
                let item = Item {
                    tree,
                    path: format!("{}[{index}]", item.path),
                };
                template::refuse(&item, &mut self.problems);
            }
            Value::List(items) => {
                items
                    .iter()
                    .for_each(|tree| self.no_templates(item, index, tree));
            }
            Value::Map(_) => {
                let values = tree.entries().iter().map(|entry| &entry.value);
                values.for_each(|tree| self.no_templates(item, index, tree));
            }
            _ => {}
        }
    }
}

impl Values<'_> {
    fn len(&self) -> u64 {
        match self {
            Self::Listed(values) => values.len() as u64,
            Self::Counted(span) => span.count,
        }
    }
}

fn numbers(span: &Span) -> Vec<String> {
    let items = Items::Range {
        first: span.first,
        step: span.step,
        count: u32::try_from(span.count).unwrap_or(u32::MAX),
    };
    let value = |item| items::value(&items, item).map(|value| value.to_string());
    (0..).map_while(value).collect()
}

/// The keys that every value has, if all are maps.
fn common_keys(values: &[Tree]) -> Keys {
    let mut common: Option<BTreeSet<&str>> = None;
    for tree in values {
        let Value::Map(entries) = &tree.value else {
            return Keys::Whole;
        };
        let keys: BTreeSet<&str> = entries.iter().map(|entry| entry.key.as_str()).collect();
        match &mut common {
            None => common = Some(keys),
            Some(common) => common.retain(|key| keys.contains(key)),
        }
    }
    match common {
        None => Keys::Unknown,
        Some(keys) => Keys::Of(keys.into_iter().map(str::to_owned).collect()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_has_the_numbers_before_its_end_whatever_they_are() {
        let count = |first, end, step| Span::new(first, end, step).map(|span| span.count);
        for (first, end, step, expected) in [
            (0, 10, 1, Some(10)),
            (0, 10, 3, Some(4)),
            (10, 0, -4, Some(3)),
            (5, 5, 1, Some(0)),
            (5, 5, -1, Some(0)),
            (0, 10, -1, None),
            (0, 10, 0, None),
            (i64::MIN, i64::MAX, 1, Some(u64::MAX)),
            (i64::MAX, i64::MIN, i64::MIN, Some(2)),
        ] {
            assert_eq!(count(first, end, step), expected, "{first} {end} {step}");
        }
    }
}
