//! Waits that no other rule is about.

use super::*;
use crate::ledger::Range;
use crate::placement::limits::CLASSES_MAX;
use crate::scheduler::bullpen::Bullpen;
use crate::wait::WaitReason;

#[test]
fn an_instance_beyond_the_queues_of_placement_tells_so() {
    let mut bullpen = Bullpen::default();
    let last = CLASSES_MAX as u64;
    for id in 0..=last {
        let mut spec = InstanceSpec::default();
        spec.request.resources.memory_min = 1 + id;
        bullpen.fresh(&Range {
            first: InstanceId(id),
            last: InstanceId(id),
            spec: Arc::new(spec),
        });
    }
    let reason = |id| bullpen.explain(InstanceId(id)).map(|wait| wait.reason);
    assert_eq!(reason(0), Some(WaitReason::NoWorker));
    assert_eq!(reason(last), Some(WaitReason::Overflow));
    assert_eq!(reason(last + 1), None);
}
