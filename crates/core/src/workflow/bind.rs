//! The spec of an item's instance: its task's spec with every template rendered.

use baton_model::spec::InstanceSpec;
use baton_model::workflow::Part;

use super::texts::texts;
use super::{Dag, Progress, items, template};

/// Environment variable with the run's id.
const RUN: &str = "BATON_RUN";
const GENERATION: &str = "BATON_GENERATION";
const TASK: &str = "BATON_TASK";
/// Environment variable with the value of the item.
const ITEM: &str = "BATON_ITEM";
/// Environment variable with the index of the item.
const ITEM_INDEX: &str = "BATON_ITEM_INDEX";

/// The spec of one item.
#[must_use]
pub fn spec(dag: &Dag, progress: &Progress, part: Part) -> InstanceSpec {
    let task = &dag.plan.tasks[part.task as usize];
    let value = progress.value(dag, part.task, part.item);
    let mut spec = (*task.spec).clone();
    let index = (part.task, part.item);
    texts(&mut spec, &mut |text| {
        if text.contains("{{") {
            *text = template::render(text, |reference| {
                progress.text_value(dag, index, value.as_ref(), reference)
            });
        }
    });
    spec.name = items::label(task, part.item, value.as_ref());
    let mut own = vec![
        (RUN, part.run.to_string()),
        (GENERATION, part.generation.0.to_string()),
        (TASK, task.name.clone()),
    ];
    if let Some(value) = &value {
        own.push((ITEM, template::plain(value).into_owned()));
        own.push((ITEM_INDEX, part.item.to_string()));
    }
    let own = own
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value));
    spec.env.extend(own);
    spec.part = Some(part);
    spec
}
