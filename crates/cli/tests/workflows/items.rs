//! Items of a task, dependencies between items, and the environment of commands.

use serde_json::json;

use crate::workspace::Workspace;

#[test]
fn every_way_to_write_items_gives_exactly_these() {
    let workspace = Workspace::start();
    let over = workspace.finished(
        "workflow: items
tasks:
  values: { run: ['sh', '-c', 'echo \"$0\" >> DIR/values', '{{ item }}'], for_each: [eu, 'a b', 3] }
  maps: { run: 'echo {{ item.name }} {{ item.size }} >> DIR/maps', for_each: [{ name: a, size: 1 }, { name: b, size: 2 }] }
  range: { run: 'echo {{ item }} >> DIR/range', for_each: { range: [0, 3] } }
  steps: { run: 'echo {{ item }} >> DIR/steps', for_each: { range: [10, 0, -5] } }
  short: { run: 'echo {{ item }} >> DIR/short', for_each: '7..9' }
  grid: { run: 'echo {{ matrix.os }}-{{ matrix.py }} >> DIR/grid', matrix: { os: [linux, bsd], py: [3, 4] } }
  prod: { run: 'echo {{ item.a }}{{ item.b }} >> DIR/prod', for_each: { product: { a: [x, y], b: { range: [0, 2] } } } }
  seen: { run: 'echo $BATON_TASK $BATON_ITEM $BATON_ITEM_INDEX $BATON_RUN $BATON_GENERATION >> DIR/seen', for_each: [u, v] }
",
    );
    over.is_done();
    assert_eq!(over.items(), "22 done");
    for (name, wanted) in [
        ("values", &["3", "a b", "eu"][..]),
        ("maps", &["a 1", "b 2"]),
        ("range", &["0", "1", "2"]),
        ("steps", &["10", "5"]),
        ("short", &["7", "8"]),
        ("grid", &["bsd-3", "bsd-4", "linux-3", "linux-4"]),
        ("prod", &["x0", "x1", "y0", "y1"]),
        ("seen", &["seen u 0 r1 1", "seen v 1 r1 1"]),
    ] {
        assert_eq!(workspace.sorted(name), wanted, "{name}");
    }
    let items = workspace.items(over.id());
    let values = items.iter().filter(|it| it["task"] == "values");
    let values: Vec<_> = values.map(|it| it["value"].clone()).collect();
    assert_eq!(
        values,
        [json!("eu"), json!("a b"), json!(3)],
        "in their order"
    );
}

/// The last item of `first` ends only after the first of `second` has: if that waited for all
/// of them, neither would.
#[test]
fn each_and_listed_edges_let_an_item_go_as_soon_as_its_own_are_done() {
    let workspace = Workspace::start();
    let over = workspace.finished(
        "workflow: edges
timeout: 50s
tasks:
  first:
    for_each: '0..3'
    run: |
      test {{ item }} != 2 || until test -e DIR/second.0; do sleep 0.02; done
      echo first {{ item }} >> DIR/ran
  second:
    for_each: '0..3'
    after: [{ task: first, each: true }]
    run: |
      grep -qx 'first {{ item }}' DIR/ran || exit 1
      echo second {{ item }} >> DIR/ran
      touch DIR/second.{{ item }}
  pairs:
    for_each: '0..2'
    after: [{ task: second, items: '0,1;1,2' }]
    run: |
      for i in {{ item }} $(({{ item }} + 1)); do grep -qx \"second $i\" DIR/ran || exit 1; done
      echo pairs {{ item }} >> DIR/ran
",
    );
    over.is_done();
    assert_eq!(over.items(), "8 done");
    assert_eq!(workspace.lines("ran").len(), 8);
}

#[test]
fn one_item_that_fails_blocks_only_the_items_that_come_after_it() {
    let workspace = Workspace::start();
    let over = workspace.finished(
        "workflow: partly
tasks:
  first: { run: 'test {{ item }} != 1', for_each: '0..3' }
  second: { run: 'echo {{ item }} >> DIR/second', for_each: '0..3', after: [{ task: first, each: true }] }
  all: { run: 'echo all >> DIR/second', after: [first] }
",
    );
    over.has_failed();
    assert_eq!(over.items(), "4 done, 1 failed, 2 blocked");
    assert_eq!(workspace.sorted("second"), ["0", "2"]);
}

#[test]
fn outputs_are_filled_into_commands_and_make_items() {
    let workspace = Workspace::start();
    let over = workspace.finished(
        r#"workflow: outputs
tasks:
  list: { run: 'echo "files=[\"a\", \"b c\", 3]" > "$BATON_OUTPUT"' }
  none: { run: 'echo "{\"files\": []}" > "$BATON_OUTPUT"' }
  mapped:
    for_each: "{{ tasks.list.outputs.files }}"
    run: |
      echo "$BATON_ITEM" >> DIR/mapped
      echo "n=$BATON_ITEM_INDEX" > "$BATON_OUTPUT"
  empty: { run: 'echo empty >> DIR/mapped', for_each: "{{ tasks.none.outputs.files }}" }
  join: { run: [sh, -c, 'echo "$0" >> DIR/join', "{{ tasks.mapped.outputs.n }}"], after: [mapped, empty] }
"#,
    );
    over.is_done();
    assert_eq!(over.items(), "6 done");
    assert_eq!(workspace.sorted("mapped"), ["3", "a", "b c"]);
    assert_eq!(workspace.lines("join"), ["[0,1,2]"]);
    let items = workspace.items(over.id());
    let mapped = items
        .iter()
        .find(|it| it["task"] == "mapped" && it["item"] == 2);
    assert_eq!(mapped.expect("it ran")["outputs"], r#"{"n":2}"#);
    let failed = workspace.finished(
        "workflow: silent
tasks:
  says: { run: 'true' }
  asks: { run: 'echo {{ tasks.says.outputs.word }} >> DIR/asked', after: [says] }
",
    );
    failed.has_failed();
    assert_eq!(workspace.lines("asked"), [""; 0]);
    let problem = &failed.run["problems"][0];
    assert_eq!(problem["task"], "asks", "{failed:?}");
    let text = problem["text"].as_str().expect("a text");
    assert!(text.contains("says") && text.contains("word"), "{text}");
}

const PARAMS: &str = "workflow: params
params: { who: world, n: { type: int, default: 1, max: 9 } }
tasks:
  count: { run: 'echo rows={{ params.n }} > \"$BATON_OUTPUT\"' }
  say: { run: 'echo {{ params.who }} {{ params.n }} $BATON_PARAM_WHO >> DIR/ran' }
  many: { run: 'echo many >> DIR/ran', after: [count], when: tasks.count.outputs.rows > 4 }
  few: { run: 'echo few >> DIR/ran', after: [count], when: not (tasks.count.outputs.rows > 4) }
  after-many: { run: 'echo after >> DIR/ran', after: [many] }
  some: { run: 'echo {{ item }} >> DIR/ran', for_each: [eu, us], when: \"item != 'us' or params.who == 'all'\" }
";

#[test]
fn parameters_and_conditions_decide_what_runs() {
    let workspace = Workspace::start();
    let few = workspace.finished(PARAMS);
    few.is_done();
    assert_eq!(workspace.sorted("ran"), ["eu", "few", "world 1 world"]);
    assert_eq!(few.items(), "4 done, 3 skipped");
    std::fs::remove_file(workspace.path("ran")).expect("written");
    let many = workspace.finished_with(PARAMS, &["-p", "n=5", "-p", "who=all"]);
    many.is_done();
    assert_eq!(
        workspace.sorted("ran"),
        ["after", "all 5 all", "eu", "many", "us"]
    );
    assert_eq!(many.run["params"], json!({"n": "5", "who": "all"}));
    for (given, field) in [
        ("n=10", "params.n"),
        ("n=x", "params.n"),
        ("no=1", "params.no"),
    ] {
        let refused = workspace.run(&["submit", "wf.yaml", "-p", given]);
        assert_eq!(refused.code, Some(2), "{refused:?}");
        assert!(
            refused.err.contains(field) && refused.err.contains("hint"),
            "{refused:?}"
        );
    }
    assert_eq!(
        workspace.run(&["runs", "--json"]).json()[2],
        json!(null),
        "no third run"
    );
}

#[test]
fn a_task_takes_what_it_does_not_say_from_its_template_and_the_defaults() {
    let workspace = Workspace::start();
    let over = workspace.finished(
        "workflow: layers
defaults: { env: { A: default, B: default, C: default }, retry: { attempts: 2, backoff: 10ms..10ms } }
templates:
  say:
    env: { B: template, C: template }
    run: |
      echo {{ task.name }} $A $B $C >> DIR/ran
      test {{ task.name }} != fails
tasks:
  plain: { template: say }
  own: { template: say, env: { C: own } }
  bare: { run: 'echo bare $A $B $C >> DIR/ran' }
  fails: { template: say }
  once: { template: say, run: 'echo once >> DIR/ran; exit 1', retry: { attempts: 1 } }
",
    );
    over.has_failed();
    assert_eq!(
        workspace.sorted("ran"),
        [
            "bare default default default",
            "fails default template template",
            "fails default template template",
            "once",
            "own default template own",
            "plain default template template",
        ]
    );
}

#[test]
fn an_item_sees_what_its_own_has_put_out_and_who_waits_for_all_sees_all() {
    let workspace = Workspace::start();
    let over = workspace.finished(
        "workflow: outputs
tasks:
  up: { run: 'echo x={{ item }}0 > $BATON_OUTPUT', for_each: [1, 2, 3] }
  down: { run: 'echo {{ item }} {{ tasks.up.outputs.x }} >> DIR/down', for_each: [a, b, c], after: [{ task: up, each: true }] }
  all: { run: ['sh', '-c', 'echo \"$0\" >> DIR/all', '{{ tasks.up.outputs.x }}'], after: [down] }
  typed: { run: 'echo {{ matrix.py }} >> DIR/typed', matrix: { py: [3.9, 3.10] } }
",
    );
    over.is_done();
    assert_eq!(workspace.sorted("down"), ["a 10", "b 20", "c 30"]);
    assert_eq!(workspace.lines("all"), ["[10,20,30]"]);
    assert_eq!(workspace.sorted("typed"), ["3.10", "3.9"]);
}

#[test]
fn an_item_without_what_its_command_refers_to_never_runs() {
    let workspace = Workspace::start();
    let over = workspace.finished(
        "workflow: missing
tasks:
  list: { run: ['sh', '-c', 'echo \"f=$0\" > $BATON_OUTPUT', '[{\"dir\": \"a\"}, {\"dri\": \"b\"}]'] }
  clear: { run: 'echo clear {{ item.dir }}/ >> DIR/ran', for_each: '{{ tasks.list.outputs.f }}' }
",
    );
    over.has_failed();
    assert_eq!(workspace.lines("ran"), ["clear a/"]);
    let shown = workspace.run(&["show", over.id()]).good();
    assert!(shown.contains("its item has no `dir`"), "{shown}");
}
