//! Items of a task: their number and values.

use baton_model::workflow::{Items, PlanTask};
use serde_json::{Map, Value};

/// Number of items; none if an upstream task's output determines it.
#[must_use]
pub fn count(items: &Items) -> Option<u64> {
    match items {
        Items::One => Some(1),
        Items::Values(values) => Some(values.len() as u64),
        Items::Range { count, .. } => Some(u64::from(*count)),
        Items::Product(axes) => {
            let lengths = axes.iter().map(|axis| axis.values.len() as u64);
            Some(lengths.fold(1, u64::saturating_mul))
        }
        Items::Output { .. } => None,
    }
}

/// The value of one item; none for a task with a single item, or if the values are an upstream
/// task's output.
#[must_use]
pub fn value(items: &Items, item: u32) -> Option<Value> {
    match items {
        Items::One | Items::Output { .. } => None,
        Items::Values(values) => values.get(item as usize).map(|text| json(text)),
        Items::Range { first, step, count } => {
            let value = i128::from(*first) + i128::from(*step) * i128::from(item);
            let value = i64::try_from(value).ok()?;
            (item < *count).then(|| Value::from(value))
        }
        Items::Product(axes) => {
            let mut rest = item as usize;
            let mut map = Map::new();
            for axis in axes.iter().rev() {
                let length = axis.values.len().max(1);
                let text = axis.values.get(rest % length)?;
                map.insert(axis.name.clone(), json(text));
                rest /= length;
            }
            (rest == 0).then_some(Value::Object(map))
        }
    }
}

/// Display name of an item.
#[must_use]
pub fn label(task: &PlanTask, item: u32, value: Option<&Value>) -> String {
    const CHARS_MAX: usize = 40;
    let Some(value) = value else {
        return match task.items {
            Items::One => task.name.clone(),
            _ => format!("{}[{item}]", task.name),
        };
    };
    let text = match value {
        Value::Object(map) => {
            let values: Vec<_> = map.values().map(super::template::plain).collect();
            values.join(",")
        }
        other => super::template::plain(other).into_owned(),
    };
    let clean = text.chars().filter(|c| !c.is_control());
    let short: String = clean.take(CHARS_MAX).collect();
    format!("{}[{short}]", task.name)
}

/// The name of the task in the display name of one of its items. A name that has a bracket counts up to it.
#[must_use]
pub fn task_name(label: &str) -> &str {
    match label.split_once('[') {
        Some((name, _)) if !name.is_empty() => name,
        _ => label,
    }
}

/// A value of a plan, which is JSON; anything else is taken as text.
fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use baton_model::workflow::Axis;

    #[test]
    fn the_task_of_an_item_is_in_its_label() {
        let names = ["align[eu]", "align[a[1]]", "align", "[x]"].map(task_name);
        assert_eq!(names, ["align", "align", "align", "[x]"]);
    }

    #[test]
    fn a_product_has_every_combination_and_the_last_axis_goes_fastest() {
        let axis = |name: &str, values: &[&str]| Axis {
            name: name.to_owned(),
            values: values.iter().map(|it| (*it).to_owned()).collect(),
        };
        let items = Items::Product(vec![
            axis("os", &["\"a\"", "\"b\""]),
            axis("py", &["1", "2", "3"]),
        ]);
        assert_eq!(count(&items), Some(6));
        let shown: Vec<_> = (0..7)
            .map(|at| value(&items, at).map(|it| it.to_string()))
            .collect();
        assert_eq!(shown[0].as_deref(), Some(r#"{"os":"a","py":1}"#));
        assert_eq!(shown[1].as_deref(), Some(r#"{"os":"a","py":2}"#));
        assert_eq!(shown[5].as_deref(), Some(r#"{"os":"b","py":3}"#));
        assert_eq!(shown[6], None);
    }

    #[test]
    fn a_range_counts_in_steps() {
        let items = Items::Range {
            first: 10,
            step: -5,
            count: 3,
        };
        let values: Vec<_> = (0..4).filter_map(|at| value(&items, at)).collect();
        assert_eq!(values, [10, 5, 0].map(Value::from));
        let widest = Items::Range {
            first: i64::MIN,
            step: i64::MAX,
            count: 3,
        };
        assert_eq!(value(&widest, 2), Some(Value::from(i64::MAX - 1)));
    }
}
