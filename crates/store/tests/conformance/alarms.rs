//! Open alarms.

use std::sync::Arc;

use baton_model::alarm::{Alarm, AlarmKind, Expectations};
use baton_model::conditions::Subject;
use baton_model::fact::Fact;
use baton_model::ids::{InstanceId, RunId};
use baton_model::spec::InstanceSpec;
use baton_model::time::{Millis, Wall};

use crate::Open;
use crate::leading::Leader;

fn alarm(kind: AlarmKind, subject: Subject, owner: &str, at: u64) -> Alarm {
    Alarm {
        kind,
        subject,
        at: Wall(at),
        owner: owner.into(),
        name: "nightly".into(),
        reason: "has not ended".into(),
    }
}

fn raised(alarm: &Alarm) -> Fact {
    Fact::AlarmRaised(Box::new(alarm.clone()))
}

pub(crate) fn alarms_are_rows_until_they_are_cleared(open: Open<'_>) {
    let store = open();
    let mut leader = Leader::elect(&*store);
    let range = Subject::Instances {
        first: InstanceId(1),
        last: InstanceId(9),
    };
    let late = alarm(AlarmKind::Late, range, "lab", 7);
    let slow = alarm(AlarmKind::Slow, Subject::Run(RunId(3)), "lab", 5);
    let stuck = alarm(AlarmKind::Stuck, range, "billing", 6);
    let facts = [&late, &slow, &stuck].map(raised).to_vec();
    leader.commit(&*store, facts);
    let page = store.alarms(None, 2).expect("readable");
    assert_eq!(page.alarms, [slow.clone(), stuck.clone()], "the oldest");
    assert_eq!(page.counts.values().sum::<u64>(), 3);
    let of_owner = store.alarms(Some("lab"), 9).expect("readable");
    assert_eq!(of_owner.alarms, [slow.clone(), late.clone()]);
    assert_eq!(of_owner.counts.get(&AlarmKind::Stuck), None);
    let at = Wall(9);
    leader.commit(
        &*store,
        vec![
            Fact::AlarmCleared {
                alarm: slow.key(),
                at,
            },
            // Raised and cleared at once: work that was too short.
            raised(&alarm(AlarmKind::Short, range, "lab", 9)),
            Fact::AlarmCleared {
                alarm: alarm(AlarmKind::Short, range, "lab", 9).key(),
                at,
            },
        ],
    );
    let left = store.alarms(None, 9).expect("readable").alarms;
    assert_eq!(left, [stuck, late]);
}

pub(crate) fn a_restored_ledger_has_its_alarms(open: Open<'_>) {
    let store = open();
    let mut leader = Leader::elect(&*store);
    let id = InstanceId(1);
    let spec = InstanceSpec {
        expected: Expectations {
            max: Some(Millis(5)),
            ..Expectations::default()
        },
        ..InstanceSpec::default()
    };
    let subject = Subject::Instances {
        first: id,
        last: id,
    };
    let submitted = Fact::InstancesSubmitted {
        first: id,
        last: id,
        spec: Arc::new(spec),
    };
    let alarm = alarm(AlarmKind::Slow, subject, "lab", 7);
    leader.commit(&*store, vec![submitted, raised(&alarm)]);
    let next = Leader::elect(&*store);
    assert_eq!(next.ledger, leader.ledger);
    assert_eq!(next.ledger.alarms().values().next(), Some(&alarm));
}
