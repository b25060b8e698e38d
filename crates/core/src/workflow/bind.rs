//! The spec of an item's instance: its task's spec with every template rendered. And parameters
//! that are known only when a run or an instance is launched.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use baton_model::spec::InstanceSpec;
use baton_model::workflow::{Part, Plan};

use super::template::Reference;
use super::texts::{references, texts};
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
    spec.trace = dag.plan.trace;
    spec
}

/// A plan with the values of parameters that its texts still refer to: the one that its file makes
/// of these values, so that a resume with the file finds nothing changed.
#[must_use]
pub fn plan(plan: &Arc<Plan>, params: BTreeMap<String, String>) -> Arc<Plan> {
    if params.is_empty() {
        return Arc::clone(plan);
    }
    let mut plan = (**plan).clone();
    for task in &mut plan.tasks {
        let mut refers = false;
        let is_param = |reference: Reference| matches!(reference, Reference::Param(_));
        references(&task.spec, &mut |reference| refers |= is_param(reference));
        if refers {
            texts(Arc::make_mut(&mut task.spec), &mut |text| {
                *text = template::substitute(text, |reference| value_of(reference, &params));
            });
        }
    }
    plan.params.extend(params);
    Arc::new(plan)
}

/// Renders the texts of a task's spec, which are templates if there are such parameters.
pub fn params(spec: &mut InstanceSpec, params: &BTreeMap<String, String>) {
    if !params.is_empty() {
        texts(spec, &mut |text| {
            *text = template::render(text, |reference| value_of(reference, params));
        });
    }
}

fn value_of<'a>(
    reference: &Reference,
    params: &'a BTreeMap<String, String>,
) -> Option<Cow<'a, str>> {
    match reference {
        Reference::Param(name) => params.get(name).map(|value| Cow::Borrowed(value.as_str())),
        _ => None,
    }
}
