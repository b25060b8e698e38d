//! Tables of workflows.

use super::Type::{Any, AnyOf, Bool, Duration, Integer, List, Map, Name, Text, Word};
use super::Zero::Refused;
use super::task::{
    CWD, DEADLINE, EXPECTED, FINALIZATION_WAIT, MAX_CONCURRENCY, MAX_FAILURES, NOTIFY_FIELD, ORDER, OWNER, PARAMS, POLICIES, PROCESSES, RESOURCE_REQUEST, STDERR, STDOUT, TASK_ENV,
    TASK_RUN, TRIGGER, USER,
};
use super::{Field, Object, POSITIVE, Type, field, join};

pub(crate) static WORKFLOW: Object = Object::new(
    "Workflow",
    "a workflow",
    &[
        field("workflow", Name, "Its name.").required(),
        OWNER,
        PARAMS,
        field("max_concurrent", POSITIVE, "Instances of the run in flight at once: at most 200,000."),
        field("fail_fast", Bool, "After the first failure no task starts, except those that depend on another with `on: end` or `on: failure`.").or("false"),
        field("timeout", Duration(Refused), "The longest time of the whole run: then instances in flight are killed, and no task starts."),
        field("defaults", Type::Object(&DEFAULTS), "Fields for all tasks, which a task overrides."),
        field("templates", Map(&Type::Object(&TEMPLATE), 0), "Partial tasks by name, for tasks with `template: NAME`."),
        field("trigger", Type::Object(&TRIGGER), "What starts it, once it is in the library."),
        DEADLINE,
        EXPECTED,
        NOTIFY_FIELD,
        field("tasks", Map(&Type::Object(&WORKFLOW_TASK), 1), "Its tasks by name; at least one.").required(),
    ],
);

pub(crate) static PART: Object = Object::new(
    "Part of a workflow",
    "a part of a workflow",
    &[field("tasks", Map(&Type::Object(&WORKFLOW_TASK), 1), "Tasks by name.").required()],
);

/// The fields of a task beside those of `defaults`: templates have all but the last.
const OWN_FIELDS: &[Field] = &[
    TASK_RUN,
    STDOUT,
    STDERR,
    PROCESSES,
    field("after", AFTER_TYPE, "Its upstream tasks: one, or a list."),
    field("for_each", FOR_EACH_TYPE, "The values of its items: a list, a range `\"0..10\"`, a map, another task's output, or a list parameter."),
    field("matrix", AXES, "An item for every combination of these values."),
    field("when", AnyOf(&[Text, Bool]), "A condition, evaluated for each item, which is skipped unless it holds."),
    field("template", Text, "The template that it uses."),
];

const DEFAULTS_FIELDS: &[Field] = &join::<{ 9 + POLICIES.len() }>(&[
    &[
        RESOURCE_REQUEST,
        TASK_ENV,
        CWD,
        ORDER,
        MAX_FAILURES,
        MAX_CONCURRENCY,
        FINALIZATION_WAIT,
        USER,
    ],
    POLICIES,
    &[field("max_concurrent", POSITIVE, "Instances of it in flight at once: at most 10,000. That of a template is shared by its tasks.")],
]);

const TASK_FIELDS: &[Field] = &join::<{ DEFAULTS_FIELDS.len() + OWN_FIELDS.len() }>(&[DEFAULTS_FIELDS, OWN_FIELDS]);

pub(crate) static WORKFLOW_TASK: Object = Object {
    any_of: &[&["run"], &["processes"], &["template"]],
    exclusive: &["run", "processes"],
    ..Object::new("Task of a workflow", "a task of a workflow", TASK_FIELDS)
};
pub(crate) static PART_TASK: Object = Object::new("Task of a part", "a task of a workflow", TASK_FIELDS.split_at(TASK_FIELDS.len() - 1).0);
pub(crate) static TEMPLATE: Object = Object::new("Template", "a template", TASK_FIELDS.split_at(TASK_FIELDS.len() - 1).0);
pub(crate) static DEFAULTS: Object = Object::new("Defaults", "defaults", DEFAULTS_FIELDS);

pub(crate) static AFTER: Object = Object::new(
    "Upstream task",
    "an entry of `after`",
    &[
        field("task", Text, "Its name.").required(),
        field("on", Word(&["success", "failure", "end"]), "The result that starts this task.").or("success"),
        field("each", Bool, "An item waits for the item with the same index, instead of for all.").or("false"),
        field("items", AnyOf(&[Type::Pattern("lists of items", "^[0-9+,;\\s]*$"), Integer(0, i64::MAX), List(&List(&Integer(0, i64::MAX), 0, usize::MAX), 0, usize::MAX)]), "For each item the items that it waits for: `\"0,1;1,2\"`, or `[[0, 1], [1, 2]]`."),
    ],
);

pub(crate) static FOR_EACH: Object = Object {
    any_of: &[&["range"], &["product"]],
    exclusive: &["range", "product"],
    ..Object::new(
        "Items",
        "for_each",
        &[
            field("range", NUMBERS, "The first number, the end (which is excluded), and a step."),
            field("product", AXES, "An item for every combination of these values."),
        ],
    )
};

pub(crate) static RANGE: Object = Object::new(
    "Range",
    "a range",
    &[field("range", NUMBERS, "The first number, the end (which is excluded), and a step.").required()],
);

const AFTER_ENTRY: Type = AnyOf(&[Text, Type::Object(&AFTER)]);
const AFTER_TYPE: Type = AnyOf(&[AFTER_ENTRY, List(&AFTER_ENTRY, 0, usize::MAX)]);
const FOR_EACH_TYPE: Type = AnyOf(&[List(&Any, 0, usize::MAX), Text, Type::Object(&FOR_EACH)]);
const NUMBERS: Type = List(&Integer(i64::MIN, i64::MAX), 2, 3);
/// Names with their values.
const AXES: Type = Map(&AnyOf(&[List(&Any, 0, usize::MAX), Text, Type::Object(&RANGE)]), 1);
