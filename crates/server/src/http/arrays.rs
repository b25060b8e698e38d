//! The array of a submission: a range of indices, other indices, or items.
//!
//! A range shares one spec, however long it is. Elements with other indices, and with items, have
//! specs of their own, so their number and their bytes are limited.

use baton_core::scheduler::{Elements, Submission};
use baton_core::workflow::template::plain;
use baton_files::indices::{self, IndexRange};
use baton_files::{Binding, TaskFile};
use baton_model::api::{FieldProblem, Indices, Submit};
use baton_model::paths::Collision;
use baton_model::spec::{InstanceSpec, SparseSpec};
use serde_json::Value;

use super::problem::{Answer, Fault};
use crate::limits::{
    ARRAY_ELEMENTS_MAX, ARRAY_INDEX_MAX, ARRAY_ITEMS_MAX, ITEM_BYTES_MAX, SUBMISSION_BYTES_MAX,
};

/// The elements of a submission.
#[derive(Debug, PartialEq)]
pub(super) enum Shape {
    /// One instance, which is no array.
    One,
    /// At least one range of indices.
    Indices(Vec<IndexRange>),
    /// At least one item.
    Items(Vec<Value>),
}

/// Checks which elements a request asks for.
pub(super) fn shape(submit: &mut Submit<Value>) -> Answer<Shape> {
    let (array, indices, items) = (submit.array, &submit.indices, submit.items.take());
    let shape = match (array, indices, items) {
        (None, None, None) => return Ok(Shape::One),
        (Some(Indices { from, to }), None, None) if from <= to => Shape::Indices(vec![(from, to)]),
        (Some(Indices { from, to }), None, None) => {
            let message = format!("the last index, {to}, is less than the first, {from}");
            return Err(refused("array", message, "write the smaller one first"));
        }
        (None, Some(text), None) => {
            let parsed = indices::parse(text);
            let hint = "write them as in 1-1000, 0-9:2 or 1,3,5";
            Shape::Indices(parsed.map_err(|message| refused("indices", message, hint))?)
        }
        (None, None, Some(items)) => Shape::Items(checked(items)?),
        _ => {
            let message = "array, indices and items exclude each other".to_owned();
            return Err(refused("array", message, "send one of them"));
        }
    };
    if let Shape::Indices(ranges) = &shape {
        if indices::count(ranges) > ARRAY_ELEMENTS_MAX {
            let message = format!("an array has at most {ARRAY_ELEMENTS_MAX} elements");
            return Err(refused("array", message, "submit it in parts"));
        }
        if let Some((_, to)) = ranges.iter().find(|(_, to)| *to > ARRAY_INDEX_MAX) {
            let message = format!("the index {to} is above {ARRAY_INDEX_MAX}");
            return Err(refused(
                "array",
                message,
                "subtract a constant from all indices",
            ));
        }
    }
    Ok(shape)
}

fn checked(items: Vec<Value>) -> Answer<Vec<Value>> {
    if items.is_empty() {
        let message = "there is no item".to_owned();
        return Err(refused("items", message, "send at least one"));
    }
    if items.len() > ARRAY_ITEMS_MAX {
        let message = format!("an array has at most {ARRAY_ITEMS_MAX} items");
        return Err(refused("items", message, "submit it in parts"));
    }
    for (place, item) in items.iter().enumerate() {
        let text = plain(item);
        let message = if text.len() > ITEM_BYTES_MAX {
            format!("an item has at most {ITEM_BYTES_MAX} bytes")
        } else if text.contains('\0') {
            "an item may not contain the character NUL".to_owned()
        } else {
            continue;
        };
        let hint = "put the data into a file, and send its name";
        return Err(refused(&format!("items[{place}]"), message, hint));
    }
    Ok(items)
}

/// Binds a task once for each spec that its elements need.
pub(super) fn submission(
    file: &TaskFile,
    mut binding: Binding,
    shape: Shape,
) -> Answer<Submission> {
    let mut elements = Vec::new();
    match shape {
        Shape::One => {
            return Ok(Submission {
                spec: Box::new(file.instance(&binding)?),
                array: None,
                more: Vec::new(),
                key: None,
            });
        }
        Shape::Indices(ranges) => {
            let spec = file.instance(&binding)?;
            check_bytes(&spec, ranges.len())?;
            for (from, to) in ranges {
                elements.push(Elements {
                    spec: Box::new(spec.clone()),
                    count: (to - from).saturating_add(1),
                    from,
                });
            }
        }
        Shape::Items(items) => {
            let count = items.len();
            for (from, item) in (0..).zip(items) {
                binding.item = Some(item);
                let spec = Box::new(file.instance(&binding)?);
                check_bytes(&spec, count)?;
                let count = 1;
                elements.push(Elements { spec, count, from });
            }
        }
    }
    check_outputs(&elements)?;
    // A shape has at least one element.
    let Elements { spec, count, from } = elements.remove(0);
    Ok(Submission {
        spec,
        array: Some((count, from)),
        more: elements,
        key: None,
    })
}

/// Refuses an array of which several elements would write to one file.
fn check_outputs(elements: &[Elements]) -> Answer<()> {
    type Path = fn(&InstanceSpec) -> Option<&str>;
    let outputs: [(&str, Path); 2] = [
        ("stdout", |spec| spec.paths.stdout.as_deref()),
        ("stderr", |spec| spec.paths.stderr.as_deref()),
    ];
    for (field, path) in outputs {
        let paths = elements.iter().flat_map(|it| {
            // Two elements of one spec stand for all of them.
            let indices = it.from..it.from.saturating_add(it.count.min(2));
            let path = path(&it.spec);
            indices.filter_map(move |index| Some((index, path?)))
        });
        if let Some(collision) = Collision::find(paths) {
            let message = collision.message("the array elements");
            return Err(refused(field, message, Collision::HINT));
        }
    }
    Ok(())
}

/// Refuses specs that are too many for their size.
fn check_bytes(spec: &InstanceSpec, count: usize) -> Answer<()> {
    if count == 1 {
        return Ok(());
    }
    let bytes = serde_json::to_vec(&SparseSpec(spec)).map_or(0, |bytes| bytes.len());
    if bytes.saturating_mul(count) <= SUBMISSION_BYTES_MAX {
        return Ok(());
    }
    let message = format!(
        "{count} instances of a task of {bytes} bytes are more than {SUBMISSION_BYTES_MAX} bytes"
    );
    Err(refused(
        "items",
        message,
        "submit it in parts, or move data into files",
    ))
}

fn refused(field: &str, message: String, hint: &str) -> Fault {
    let at = FieldProblem {
        field: field.to_owned(),
        message: message.clone(),
        hint: hint.to_owned(),
    };
    Fault::unusable(message, vec![at])
}
