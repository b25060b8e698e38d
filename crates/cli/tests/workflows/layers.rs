//! A workflow of 61 items whose result shows whether each of them ran once, whole, and in order.
//!
//! Each item reads the files of its upstream items, moves its result into place by a
//! rename, and then appends one line when it has finished. It holds a lock for as long
//! as one of its processes lives. So items that were lost, ran twice, overlapped or ran too
//! early are all visible, and the last file is the same as without any fault.
//!
//! Of the item NAME.N, DIR/out/NAME.N holds the result, `….done` a line for each time it
//! finished, and `….overlap` one for each time it met itself.

const LAYERS: usize = 12;
const WIDTH: usize = 5;
/// The upstream items of each item of a layer.
const EDGES: &str = "0,1;1,2;2,3;3,4;0,4";
/// Of each layer, and the one that puts everything together.
pub(crate) const ITEMS: usize = LAYERS * WIDTH + 1;

/// Finishes with `$v` in the place of the item, once and whole.
const FINISH: &str = r#"
      echo "v=$v" > "$BATON_OUTPUT"
      echo "$v" > "$me.$BATON_INSTANCE.$BATON_ATTEMPT" && mv "$me.$BATON_INSTANCE.$BATON_ATTEMPT" "$me"
      echo "$BATON_INSTANCE $BATON_ATTEMPT" >> "$me.done"
"#;

/// The workflow; each item sleeps so long.
pub(crate) fn workflow(sleep_ms: u64) -> String {
    let sleep = format!("{}.{:03}", sleep_ms / 1_000, sleep_ms % 1_000);
    let mut text = "workflow: layers\ndefaults: { resources: { cpu: 1 } }\ntasks:\n".to_owned();
    for layer in 0..LAYERS {
        let (after, value) = match layer.checked_sub(1) {
            None => ("[]".to_owned(), "v=$(($i + 1))".to_owned()),
            Some(before) => (
                format!("[{{ task: L{before}, items: '{EDGES}' }}]"),
                format!(
                    "a=$(cat DIR/out/L{before}.$i) && b=$(cat DIR/out/L{before}.$((($i + 1) % {WIDTH}))) || exit 1\n      \
                     v=$(((2 * $a + $b + {layer}) % 1000003))"
                ),
            ),
        };
        text.push_str(&format!(
            "  L{layer}:
    for_each: '0..{WIDTH}'
    after: {after}
    run: |
      i=$BATON_ITEM_INDEX; me=DIR/out/L{layer}.$i
      exec 9>\"$me.lock\"; flock -n 9 || echo \"$BATON_INSTANCE $BATON_ATTEMPT\" >> \"$me.overlap\"
      {value}
      sleep {sleep}
{FINISH}"
        ));
    }
    let last = LAYERS - 1;
    text.push_str(&format!(
        "  all:
    after: [L{last}]
    run: |
      me=DIR/out/all.0; v='{{{{ tasks.L{last}.outputs.v }}}}'
{FINISH}"
    ));
    text
}

/// What the last file says without any fault.
pub(crate) fn expected_result() -> String {
    let mut values: Vec<u64> = (1..=WIDTH as u64).collect();
    for layer in 1..LAYERS {
        let next = |i: usize| (2 * values[i] + values[(i + 1) % WIDTH] + layer as u64) % 1_000_003;
        values = (0..WIDTH).map(next).collect();
    }
    let values: Vec<String> = values.iter().map(u64::to_string).collect();
    format!("[{}]", values.join(","))
}
