//! Concurrency limits, as the tasks themselves count.

use crate::workspace::Workspace;

/// Counts itself among those that run, and stays until two have met.
const COUNTED: &str = "
      mkdir -p DIR/KIND && mkdir DIR/KIND/$BATON_TASK.$BATON_ITEM_INDEX
      ls DIR/KIND | wc -l >> DIR/KIND.seen
      until grep -qx 2 DIR/KIND.seen; do sleep 0.02; done
      sleep 0.05
      rmdir DIR/KIND/$BATON_TASK.$BATON_ITEM_INDEX
";

fn counted(kind: &str) -> String {
    COUNTED.replace("KIND", kind)
}

/// At most two were seen, and two were.
fn was_two(workspace: &Workspace, kind: &str, count: usize) {
    let seen = workspace.sorted(&format!("{kind}.seen"));
    assert_eq!(seen.len(), count, "{seen:?}");
    assert_eq!(
        seen.last().map(String::as_str),
        Some("2"),
        "{kind}: {seen:?}"
    );
}

#[test]
fn no_more_of_a_run_are_on_their_way_than_it_allows() {
    let workspace = Workspace::start();
    let body = counted("run");
    let over = workspace.finished(&format!(
        "workflow: limited
max_concurrent: 2
timeout: 50s
tasks:
  a:
    for_each: '0..5'
    run: |
{body}
  b:
    for_each: '0..5'
    run: |
{body}
"
    ));
    over.is_done();
    assert_eq!(over.items(), "10 done");
    was_two(&workspace, "run", 10);
}

#[test]
fn no_more_of_a_task_or_of_a_template_are_on_their_way_than_it_allows() {
    let workspace = Workspace::start();
    let (task, template) = (counted("task"), counted("template"));
    let over = workspace.finished(&format!(
        "workflow: limited
timeout: 50s
defaults: {{ resources: {{ cpu: 0.5 }} }}
templates:
  shared:
    max_concurrent: 2
    run: |
{template}
tasks:
  own:
    for_each: '0..6'
    max_concurrent: 2
    run: |
{task}
  north: {{ template: shared, for_each: '0..4' }}
  south: {{ template: shared, for_each: '0..4' }}
"
    ));
    over.is_done();
    was_two(&workspace, "task", 6);
    was_two(&workspace, "template", 8);
}
