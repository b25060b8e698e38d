//! Inheritance of workflow tasks from templates and defaults.
//!
//! A task is merged with its layers and read as one map. So every value is checked in one way;
//! the position of a problem is where the value is written, its field that of the inheriting
//! task. Problems of defaults and templates alone are reported first, and such layers are not
//! inherited.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use baton_model::workflow::Pool;

use super::task::Completeness;
use super::workflow::misplaced_workflow_task_field;
use super::{Fields, Item, Reader};
use crate::error::{Kind, quote};
use crate::schema::Object;
use crate::schema::workflow::{DEFAULTS, TEMPLATE, WORKFLOW_TASK};
use crate::suggest;
use crate::tree::{Tree, Value};

/// Fields of a template that its tasks share instead of inheriting.
const SHARED: &[&str] = &["max_concurrent"];

/// Maps that are merged key by key.
const KEY_BY_KEY: &[&str] = &["env", "resources", "retry"];

/// Groups of fields that a layer replaces as a whole: the first list is dropped from lower
/// layers if an upper layer has any field of the second.
const REPLACED: &[(&[&str], &[&str])] = &[
    (&["run", "processes", "order"], &["run", "processes"]),
    (&["for_each", "matrix"], &["for_each", "matrix"]),
];

/// A map that tasks inherit from.
#[derive(Clone, Debug)]
pub(super) struct Layer<'a> {
    tree: &'a Tree,
    /// Fields that tasks do not inherit.
    excluded: &'static [&'static str],
    /// Approximate size of a copy.
    pub(super) bytes: usize,
}

impl<'a> Layer<'a> {
    pub(super) fn new(tree: &'a Tree, excluded: &'static [&'static str]) -> Self {
        Self {
            tree,
            excluded,
            bytes: bytes(tree),
        }
    }
}

/// Defaults and templates of a workflow.
#[derive(Default)]
pub(super) struct Layers<'a> {
    pub(super) defaults: Option<Layer<'a>>,
    pub(super) templates: BTreeMap<&'a str, Template<'a>>,
    /// False in a part, which has no templates.
    pub(super) has_templates: bool,
    /// Concurrency limits of templates in use.
    pub(super) pools: Vec<Pool>,
}

pub(super) struct Template<'a> {
    /// `None` for an invalid template.
    pub(super) layer: Option<Layer<'a>>,
    max_concurrent: Option<u32>,
    pool: Option<u32>,
}

impl<'a> Layers<'a> {
    /// The layers of a checked file.
    pub(super) fn checked(root: &'a Tree) -> Self {
        let templates = root.get("templates").into_iter().flat_map(Tree::entries);
        let templates = templates.map(|entry| {
            let template = Template {
                layer: Some(Layer::new(&entry.value, SHARED)),
                max_concurrent: None,
                pool: None,
            };
            (entry.key.as_str(), template)
        });
        Self {
            defaults: root.get("defaults").map(|tree| Layer::new(tree, &[])),
            templates: templates.collect(),
            ..Self::default()
        }
    }

    /// The layers below a task, the uppermost first. Invalid ones are not inherited.
    pub(super) fn below(&self, task: &Tree) -> Vec<&Layer<'a>> {
        let template = match task.get("template").map(|tree| &tree.value) {
            Some(Value::String(name)) => self.templates.get(name.as_str()),
            _ => None,
        };
        let template = template.and_then(|template| template.layer.as_ref());
        template.into_iter().chain(&self.defaults).collect()
    }
}

impl Reader {
    pub(super) fn layers<'a>(&mut self, fields: &Fields<'a>) -> Layers<'a> {
        let defaults = fields
            .get("defaults")
            .and_then(|item| self.layer(&item, &DEFAULTS, &[]));
        let mut templates = BTreeMap::new();
        if let Some(item) = fields.get("templates") {
            let hint = "write a map of templates, such as { heavy: { resources: { cpu: 4 } } }";
            for (name, value, position) in self.entries(&item, hint) {
                self.key_name(name, &value, position);
                let layer = self.layer(&value, &TEMPLATE, SHARED);
                let limit = SHARED.iter().find_map(|name| value.tree.get(name));
                let template = Template {
                    max_concurrent: layer
                        .as_ref()
                        .and(limit)
                        .and_then(|tree| match &tree.value {
                            Value::Number(text) => text.parse().ok(),
                            _ => None,
                        }),
                    layer,
                    pool: None,
                };
                templates.insert(name, template);
            }
        }
        Layers {
            defaults,
            templates,
            has_templates: true,
            pools: Vec::new(),
        }
    }

    /// Checks a layer on its own; `None` if it has problems.
    fn layer<'a>(
        &mut self,
        item: &Item<'a>,
        table: &'static Object,
        excluded: &'static [&'static str],
    ) -> Option<Layer<'a>> {
        let before = (self.problems.len(), std::mem::take(&mut self.totals));
        if let Some(mut fields) = self.fields(item, table, misplaced_workflow_task_field) {
            // Read as a task, which has more fields.
            fields.table = &WORKFLOW_TASK;
            self.checked_task(&fields, String::new(), Completeness::Partial);
        }
        // Totals count only what tasks inherit.
        self.totals = before.1;
        (self.problems.len() == before.0).then(|| Layer::new(item.tree, excluded))
    }

    /// Resolves a template and the concurrency limit that its tasks share.
    pub(super) fn use_template(&mut self, item: &Item<'_>, layers: &mut Layers<'_>) -> Option<u32> {
        if !layers.has_templates {
            return None;
        }
        let name = self.text(item, "write the name of a template")?;
        let known = layers.templates.get_key_value(name).map(|(name, _)| *name);
        let template = known.and_then(|name| Some((name, layers.templates.get_mut(name)?)));
        let Some((name, template)) = template else {
            let names = layers.templates.keys().copied();
            let hint = suggest::hint(self.problems.len(), name, names, "the templates are:");
            let message = format!("unknown template {}", quote(name));
            self.note(item, Kind::UnknownReference, message, hint);
            return None;
        };
        if let (Some(max_concurrent), None) = (template.max_concurrent, template.pool) {
            template.pool = u32::try_from(layers.pools.len()).ok();
            layers.pools.push(Pool {
                name: name.to_owned(),
                max_concurrent,
            });
        }
        template.pool
    }
}

/// Merges the task `own` with the layers below it, the uppermost first.
pub(super) fn merged<'t>(own: &'t Tree, below: &[&Layer<'_>]) -> Cow<'t, Tree> {
    let mut tree = Cow::Borrowed(own);
    for layer in below {
        merge_below(tree.to_mut(), layer);
    }
    tree
}

fn merge_below(upper: &mut Tree, layer: &Layer<'_>) {
    let replaced: Vec<&str> = REPLACED
        .iter()
        .filter(|(_, by)| by.iter().any(|key| upper.has(key)))
        .flat_map(|(keys, _)| keys.iter().copied())
        .collect();
    let Value::Map(entries) = &mut upper.value else {
        return;
    };
    for entry in layer.tree.entries() {
        let key = entry.key.as_str();
        if replaced.contains(&key) || layer.excluded.contains(&key) {
            continue;
        }
        match entries.iter_mut().find(|upper| upper.key == key) {
            None => entries.push(entry.clone()),
            Some(upper) if KEY_BY_KEY.contains(&key) => add_keys(&mut upper.value, &entry.value),
            Some(_) => {}
        }
    }
}

/// Adds the keys that `upper` lacks.
fn add_keys(upper: &mut Tree, lower: &Tree) {
    let Value::Map(entries) = &mut upper.value else {
        return;
    };
    let known: BTreeSet<&str> = entries.iter().map(|entry| entry.key.as_str()).collect();
    let missing = lower.entries().iter();
    let missing: Vec<_> = missing
        .filter(|entry| !known.contains(entry.key.as_str()))
        .cloned()
        .collect();
    entries.extend(missing);
}

fn bytes(tree: &Tree) -> usize {
    size_of::<Tree>()
        + match &tree.value {
            Value::Null | Value::Bool(_) => 0,
            Value::Number(text) | Value::String(text) => text.len(),
            Value::List(items) => items.iter().map(bytes).sum(),
            Value::Map(entries) => entries
                .iter()
                .map(|entry| entry.key.len() + bytes(&entry.value))
                .sum(),
        }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Format;
    use crate::limits::TASK_LIMITS;
    use crate::source;

    #[test]
    fn the_uppermost_layer_counts_and_some_maps_are_put_together() {
        let tree =
            |text: &str| crate::tree::parse(text, Format::Yaml, &TASK_LIMITS).expect("good YAML");
        let own = tree("{ run: a, env: { A: 1 }, constraints: { x: 1 } }");
        let template = tree(
            "{ processes: [], order: [], env: { A: 2, B: 2 }, matrix: {}, max_concurrent: 2 }",
        );
        let defaults = tree("{ env: { B: 3, C: 3 }, constraints: { y: 1 }, max_concurrent: 3 }");
        let template = Layer::new(&template, SHARED);
        let merged = merged(&own, &[&template, &Layer::new(&defaults, &[])]);
        let expected = serde_json::json!({
            "run": "a",
            "env": { "A": 1, "B": 2, "C": 3 },
            "constraints": { "x": 1 },
            "matrix": {},
            "max_concurrent": 3,
        });
        assert_eq!(source::value_to_json(&merged), expected);
    }
}
