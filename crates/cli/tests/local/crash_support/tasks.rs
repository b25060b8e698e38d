//! Task files whose processes record their own runs.
//!
//! Each run of a process P writes a line `RUN` into `begun.P` when it begins, and a line
//! `RUN CODE` into `ended.P` just before it exits with that code. It holds a lock
//! meanwhile; a run that finds it taken writes into `overlap`.

/// What every process does. `FAILS` runs of it fail, with a code that tells them apart;
/// `WORK` is what it does in between.
const BOOKS: &str = r#"
      exec 9>>lock.$BATON_PROCESS
      flock -n -E 66 9
      [ $? -ne 66 ] || echo "$BATON_PROCESS $BATON_RUN" >> overlap
      echo $BATON_RUN >> begun.$BATON_PROCESS
      eval "$WORK"
      failed=$(grep -vc ' 0$' ended.$BATON_PROCESS 2>/dev/null)
      code=0
      [ "${failed:-0}" -ge "${FAILS:-0}" ] || code=$((BATON_RUN % 50 + 1))
      echo "$BATON_RUN $code" >> ended.$BATON_PROCESS
      exit $code
"#;

/// One process; `extra` are more lines of it.
pub(crate) fn process(name: &str, fails: u32, work: &str, extra: &[&str]) -> String {
    let mut text = format!(
        "  - name: {name}\n    max_failures: 0\n    env: {{ FAILS: \"{fails}\", WORK: '{work}' }}\n"
    );
    if !extra.iter().any(|line| line.starts_with("min_duration")) {
        text += "    min_duration: 0s\n";
    }
    for line in extra {
        text += &format!("    {line}\n");
    }
    text + "    run: |" + BOOKS
}

/// A task of these processes.
pub(crate) fn task(processes: &[String]) -> String {
    let head = "task: crash\nmax_failures: 0\nfinalization_wait: 10m\nprocesses:\n";
    head.to_owned() + &processes.concat()
}

/// One first, three beside each other that fail twice each, one last, and a final one.
pub(crate) fn diamond(work: &str) -> String {
    task(&[
        process("prepare", 0, work, &[]),
        process("left", 2, work, &["after: [prepare]"]),
        process("middle", 2, work, &["after: [prepare]"]),
        process("right", 2, work, &["after: [prepare]"]),
        process("join", 1, work, &["after: [left, middle, right]"]),
        process("sweep", 0, work, &["final: true"]),
    ])
}

/// Three processes, one after the other; the second fails once.
pub(crate) fn chain() -> String {
    task(&[
        process("one", 0, ":", &[]),
        process("two", 1, ":", &["after: [one]"]),
        process("three", 0, ":", &["after: [two]"]),
    ])
}

/// Work that says so and waits for a file.
pub(crate) fn wait_for(file: &str) -> String {
    format!("touch waits.{file}; until test -e {file}; do sleep 0.02; done")
}
