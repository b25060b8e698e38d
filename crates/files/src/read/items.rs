//! Items of a workflow task: `for_each` and `matrix`.
//!
//! Items are counted before they are created, so that a short file cannot exhaust a host's
//! memory.

use std::collections::BTreeSet;

use baton_core::workflow::items;
use baton_core::workflow::template::{Piece, pieces};
use baton_model::limits::RUN_ITEMS_MAX;
use baton_model::workflow::{Axis, Items};

use super::{Fields, Item, Reader};
use crate::error::{Kind, quote};
use crate::schema::workflow::{FOR_EACH, RANGE};
use crate::source;
use crate::template::{self, RuntimeReference, is_name};
use crate::tree::{Tree, Value};
use crate::workflow::{ItemKeys, UnresolvedItems};

const FOR_EACH_HINT: &str = "write a list, a range such as { range: [0, 10] } or \"0..10\", { product: … }, or \
                             \"{{ tasks.NAME.outputs.KEY }}\" or \"{{ params.NAME }}\"";
const RANGE_HINT: &str = "write [FIRST, END] or [FIRST, END, STEP]: { range: [0, 10] } is 0 to 9";
const AXES_HINT: &str =
    "write axes with their values, such as { os: [linux, bsd], n: { range: [0, 3] } }";
const TOO_MANY_HINT: &str = "let each item do more work, or split the workflow into several runs";

/// Amounts that are limited for a whole workflow.
#[derive(Debug, Default)]
pub(super) struct Totals {
    /// Items of all tasks.
    pub(super) items: u64,
    /// Values of all axes, which may be many even if the product is empty.
    axis_values: u64,
    /// Bytes inherited from defaults and templates.
    pub(super) inherited_bytes: usize,
}

/// An arithmetic sequence.
struct Span {
    first: i64,
    step: i64,
    count: u64,
}

impl Span {
    /// The numbers before `end`; `None` if the step leads away from it.
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

/// The values of an axis, not yet created.
enum AxisValues<'a> {
    Listed(&'a [Tree]),
    Range(Span),
}

impl Reader {
    pub(super) fn items(&mut self, fields: &Fields<'_>) -> UnresolvedItems {
        let mut unresolved = UnresolvedItems {
            items: Items::One,
            from: None,
            param: None,
            keys: ItemKeys::NoItem,
            location: fields.item.location(),
        };
        // Unknown until they are read: an error in the items must not cause further errors.
        if fields.has("for_each") || fields.has("matrix") {
            unresolved.keys = ItemKeys::Unknown;
        }
        match (fields.get("for_each"), fields.get("matrix")) {
            (Some(_), Some(_)) => self.problems.push(fields.key_problem(
                "matrix",
                Kind::Conflict,
                "a task cannot have both `for_each` and `matrix`".to_owned(),
                "combine them: for_each: { product: { NAME: …, NAME: … } }",
            )),
            (Some(item), None) => {
                unresolved.location = item.location();
                self.for_each(&item, &mut unresolved);
            }
            (None, Some(item)) => {
                unresolved.location = item.location();
                self.product(&item, &mut unresolved);
            }
            (None, None) => self.totals.items += 1,
        }
        unresolved
    }

    fn for_each(&mut self, item: &Item<'_>, unresolved: &mut UnresolvedItems) {
        match &item.tree.value {
            Value::List(values) => {
                if self.reserve_items(item, values.len() as u64) {
                    unresolved.keys = common_keys(values);
                    unresolved.items = Items::Values(self.item_values(item, values));
                }
            }
            Value::String(text) if text.contains("{{") => self.reference(item, text, unresolved),
            Value::Map(_) => {
                let before = self.problems.len();
                let Some(fields) = self.fields(item, &FOR_EACH, |_| None) else {
                    return;
                };
                match (fields.get("range"), fields.get("product")) {
                    (Some(_), None) => self.range(item, unresolved),
                    (None, Some(axes)) => self.product(&axes, unresolved),
                    _ if self.problems.len() > before => {}
                    _ => {
                        let message =
                            "for_each needs exactly one of `range` and `product`".to_owned();
                        self.note(item, Kind::Conflict, message, FOR_EACH_HINT);
                    }
                }
            }
            Value::String(_) => self.range(item, unresolved),
            _ => self.wrong_type(item, "a list or a range", FOR_EACH_HINT),
        }
    }

    fn range(&mut self, item: &Item<'_>, unresolved: &mut UnresolvedItems) {
        let Some(span) = self.span(item) else { return };
        if self.reserve_items(item, span.count) {
            unresolved.keys = ItemKeys::Scalar;
            unresolved.items = Items::Range {
                first: span.first,
                step: span.step,
                count: u32::try_from(span.count).unwrap_or(u32::MAX),
            };
        }
    }

    /// Reads `{{ tasks.NAME.outputs.KEY }}` or `{{ params.NAME }}`, without surrounding text.
    fn reference(&mut self, item: &Item<'_>, text: &str, unresolved: &mut UnresolvedItems) {
        let mut pieces = pieces(text.trim());
        match (pieces.next(), pieces.next()) {
            (Some(Piece::Reference(RuntimeReference::Output { task, key })), None) => {
                self.totals.items += 1;
                unresolved.keys = ItemKeys::Unknown;
                unresolved.from = Some(task);
                unresolved.items = Items::Output { task: 0, key };
            }
            (Some(Piece::Reference(RuntimeReference::Param(name))), None) => {
                self.totals.items += 1;
                unresolved.keys = ItemKeys::Unknown;
                unresolved.param = Some(name);
                unresolved.items = Items::Values(Vec::new());
            }
            _ => {
                let message = format!("{} is not a reference to a list of values", quote(text));
                self.note(item, Kind::Template, message, FOR_EACH_HINT);
            }
        }
    }

    fn product(&mut self, item: &Item<'_>, unresolved: &mut UnresolvedItems) {
        let before = self.problems.len();
        let mut axes = Vec::new();
        for (name, value, position) in self.entries(item, AXES_HINT) {
            if !is_name(name) {
                let mut problem = value.problem(
                    Kind::BadName,
                    format!("{} is not a valid axis name", quote(name)),
                    "use letters, digits, `_` and `-`",
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
            let message = "the product has no axes".to_owned();
            self.note(item, Kind::BadValue, message, AXES_HINT);
            return;
        }
        // Not every format keeps the order of a map, and item indexes depend on it.
        axes.sort_by_key(|(name, ..)| *name);
        let lengths = || axes.iter().map(|(.., values)| values.len());
        let values = lengths().fold(self.totals.axis_values, u64::saturating_add);
        if values > RUN_ITEMS_MAX {
            let message = format!("the axes have more than {RUN_ITEMS_MAX} values in total");
            self.note(item, Kind::TooLarge, message, TOO_MANY_HINT);
            return;
        }
        self.totals.axis_values = values;
        if !self.reserve_items(item, lengths().fold(1, u64::saturating_mul)) {
            return;
        }
        unresolved.keys =
            ItemKeys::Known(axes.iter().map(|(name, ..)| (*name).to_owned()).collect());
        let axes = axes.into_iter().map(|(name, item, values)| Axis {
            name: name.to_owned(),
            values: match values {
                AxisValues::Listed(trees) => self.item_values(&item, trees),
                AxisValues::Range(span) => numbers(&span),
            },
        });
        unresolved.items = Items::Product(axes.collect());
    }

    fn axis<'a>(&mut self, item: &Item<'a>) -> Option<AxisValues<'a>> {
        match &item.tree.value {
            Value::List(values) => Some(AxisValues::Listed(values)),
            Value::String(_) | Value::Map(_) => self.span(item).map(AxisValues::Range),
            _ => {
                self.wrong_type(item, "a list or a range", AXES_HINT);
                None
            }
        }
    }

    /// Reads `{ range: [0, 10, 2] }` or `"0..10"`.
    fn span(&mut self, item: &Item<'_>) -> Option<Span> {
        if let Value::String(text) = &item.tree.value {
            let ends = text.split_once("..").and_then(|(first, end)| {
                Some((first.trim().parse().ok()?, end.trim().parse().ok()?))
            });
            let Some((first, end)) = ends else {
                let message = format!("{} is not a range", quote(text));
                self.note(item, Kind::BadValue, message, FOR_EACH_HINT);
                return None;
            };
            return self.forward(item, first, end, 1);
        }
        let fields = self.fields(item, &RANGE, |_| None)?;
        let Some(range) = fields.get("range") else {
            self.missing(&fields, "range", RANGE_HINT);
            return None;
        };
        let items = self.list(&range, RANGE_HINT);
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
                let message = format!("a range has two or three numbers, found {}", numbers.len());
                self.note(&range, Kind::BadValue, message, RANGE_HINT);
                None
            }
        }
    }

    fn forward(&mut self, item: &Item<'_>, first: i64, end: i64, step: i64) -> Option<Span> {
        let span = Span::new(first, end, step);
        if span.is_none() {
            let message = format!("steps of {step} never reach {end} from {first}");
            self.note(item, Kind::OutOfRange, message, RANGE_HINT);
        }
        span
    }

    /// Adds items to the total; false if that exceeds the limit.
    fn reserve_items(&mut self, item: &Item<'_>, count: u64) -> bool {
        let items = self.totals.items.saturating_add(count);
        if items <= RUN_ITEMS_MAX {
            self.totals.items = items;
            return true;
        }
        let message =
            format!("with these {count} items, the workflow has more than {RUN_ITEMS_MAX} items");
        self.note(item, Kind::TooLarge, message, TOO_MANY_HINT);
        false
    }

    /// The values in the form of a plan.
    fn item_values(&mut self, item: &Item<'_>, trees: &[Tree]) -> Vec<String> {
        let mut values = Vec::with_capacity(trees.len());
        for (index, tree) in trees.iter().enumerate() {
            let item = Item {
                tree,
                path: format!("{}[{index}]", item.path),
            };
            template::reject_templates(&item, &mut self.problems);
            values.push(source::value_to_json(tree).to_string());
        }
        values
    }
}

impl AxisValues<'_> {
    fn len(&self) -> u64 {
        match self {
            Self::Listed(values) => values.len() as u64,
            Self::Range(span) => span.count,
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

/// Returns the keys that all values have in common, if all are maps.
fn common_keys(values: &[Tree]) -> ItemKeys {
    let mut common: Option<BTreeSet<&str>> = None;
    for tree in values {
        let Value::Map(entries) = &tree.value else {
            return ItemKeys::Scalar;
        };
        let keys: BTreeSet<&str> = entries.iter().map(|entry| entry.key.as_str()).collect();
        match &mut common {
            None => common = Some(keys),
            Some(common) => common.retain(|key| keys.contains(key)),
        }
    }
    match common {
        None => ItemKeys::Unknown,
        Some(keys) => ItemKeys::Known(keys.into_iter().map(str::to_owned).collect()),
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
