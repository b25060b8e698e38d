//! Facts in the JSON of earlier versions, which stores still hold.

use serde_json::{Value, json};

use super::*;

/// Reads a fact in its earlier JSON, and writes it.
fn rewritten(kind: &str, body: Value) -> Value {
    let text = json!({ kind: body }).to_string();
    let fact = Fact::from_json(&text).expect("earlier names are read");
    let written = serde_json::to_value(&fact).expect("JSON");
    written[kind].clone()
}

#[test]
fn earlier_field_names_are_read() {
    let lease = json!({"attempt": {"instance": 4, "number": 1}, "epoch": 2});
    let stats = json!({"started": 1, "ended": 2, "elapsed": 1, "cpu": 0, "memory_peak": 9});
    let next = json!({"not_before": 7000, "allowance": null});
    let earlier = json!({"lineage": 5, "life": 3});
    let incarnation = json!({"lineage": 5, "number": 3});
    let cases = [
        (
            "attempt-ended",
            json!({"lease": lease, "end": {"synthetic": {"worker-lost": "newer-life"}}, "verdict": "requeued", "ran": stats, "again": next}),
            json!({"lease": lease, "end": {"synthetic": {"worker-lost": "newer-incarnation"}}, "verdict": "requeued", "stats": stats, "next_attempt": next}),
        ),
        (
            "stop-requested",
            json!({"instance": 4, "how": "now"}),
            json!({"instance": 4, "mode": "now"}),
        ),
        (
            "attempt-kill-requested",
            json!({"lease": lease, "how": "now"}),
            json!({"lease": lease, "mode": "now"}),
        ),
        (
            "worker-condemned",
            json!({"worker": "w1", "incarnation": earlier, "why": "displaced"}),
            json!({"worker": "w1", "incarnation": incarnation, "reason": "displaced"}),
        ),
        (
            "run-halting",
            json!({"run": 2, "how": "drain", "cause": "requested"}),
            json!({"run": 2, "mode": "drain", "cause": "requested"}),
        ),
        (
            "run-resumed",
            json!({"run": 2, "generation": 2, "at": 1, "plan": null, "carried": [], "again": [{"task": 1, "first": 0, "last": 3}]}),
            json!({"run": 2, "generation": 2, "at": 1, "plan": null, "carried": [], "rerun": [{"task": 1, "first": 0, "last": 3}]}),
        ),
    ];
    for (kind, earlier, now) in cases {
        assert_eq!(rewritten(kind, earlier), now, "{kind}");
        assert_eq!(rewritten(kind, now.clone()), now, "{kind}");
    }
}

#[test]
fn earlier_names_in_a_spec_are_read() {
    let resources = json!({"cpu_milli": 500, "memory_min": 7});
    let earlier = json!({"ask": {"request": resources}});
    let spec: InstanceSpec = crate::json::from_value(&earlier).expect("earlier names are read");
    assert_eq!(spec.request.resources.cpu_milli, 500);
    assert_eq!(spec.request.resources.memory_min, 7);
    let written = serde_json::to_value(&spec).expect("JSON");
    assert_eq!(written["request"]["resources"]["cpu_milli"], 500);
    let read: InstanceSpec = crate::json::from_value(&written).expect("a spec");
    assert_eq!(read, spec);
}
