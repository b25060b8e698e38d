//! Devices of launches.

use baton_model::coordinator::{
    Attempt, AttemptPaths, CoordinatorRecord, DeviceClaim, Launch, Reply, Request,
};
use baton_model::cpu::{CORE, Pin};
use baton_model::device::DeviceShare;
use baton_model::outcome::ExitStatus;
use baton_model::task::{Moment, RunKey};
use baton_model::time::Millis;

use super::rig::{Rig, run};
use super::{FAR, evidence, is_started};
use crate::host::io::StartFault;
use crate::host::kernel::SIGKILL;

fn rig(successor: bool, devices: &[&str]) -> Rig {
    let mut rig = Rig::new(successor, FAR);
    rig.request(capacity(devices));
    rig
}

fn capacity(devices: &[&str]) -> Request {
    let ids = devices.iter().map(|id| (*id).to_owned()).collect();
    Request::Capacity {
        amounts: vec![100],
        devices: [("gpu".to_owned(), ids)].into(),
        core_nodes: Vec::new(),
    }
}

fn shares(ids: &[&str]) -> Vec<DeviceShare> {
    let share = |id: &&str| DeviceShare {
        resource: "gpu".to_owned(),
        id: (*id).to_owned(),
        milli: 1_000,
    };
    ids.iter().map(share).collect()
}

fn launch(rig: &mut Rig, run: RunKey, milli: u64, held: &[&str]) {
    let amounts = (milli > 0).then(|| ("gpu".to_owned(), milli));
    let paths = AttemptPaths {
        dir: run.to_string(),
        stdout: run.to_string(),
        stderr: run.to_string(),
    };
    let launch = Launch {
        tag: format!("lease of {run}"),
        claim: vec![1],
        env: vec![("CUDA_VISIBLE_DEVICES".to_owned(), "mine".to_owned())],
        devices: DeviceClaim {
            amounts: amounts.into_iter().collect(),
            variables: [
                ("CUDA_VISIBLE_DEVICES", "gpu"),
                ("BATON_RESOURCE_FPGA", "fpga"),
            ]
            .map(|(name, of)| (name.to_owned(), of.to_owned()))
            .into(),
            held: shares(held),
            pin: None,
        },
        paths: Some(paths),
        resumes: true,
        is_runner: true,
        ..Launch::default()
    };
    rig.request(Request::Launch {
        run,
        launch: Box::new(launch),
    });
}

/// The GPUs that a process sees; none if it was not started.
fn visible(rig: &Rig, run: RunKey) -> Option<&str> {
    let mut variables = rig.environments.get(&run)?.iter();
    let found = variables.find(|(name, _)| name == "CUDA_VISIBLE_DEVICES");
    found.map(|(_, value)| value.as_str())
}

fn kill(rig: &mut Rig, run: RunKey, now: u64) {
    let pid = rig.pid_of(run);
    let process = rig.kernel.processes.get_mut(&pid).expect("it is there");
    process.zombie = Some(ExitStatus::Signal(SIGKILL));
    rig.turn(now);
}

#[test]
fn devices_are_on_record_before_the_process_starts() {
    let mut rig = rig(false, &["a", "b", "c"]);
    launch(&mut rig, run(1, 0), 2_000, &[]);
    launch(&mut rig, run(2, 0), 0, &[]);
    let assigned = CoordinatorRecord::Assigned {
        run: run(1, 0),
        devices: shares(&["a", "b"]),
    };
    let at = |wanted: &dyn Fn(&CoordinatorRecord) -> bool| rig.log.iter().position(wanted);
    let recorded = at(&|record| *record == assigned);
    let started = at(&|record| matches!(record, CoordinatorRecord::Started { .. }));
    assert!(recorded.is_some() && recorded < started, "{:?}", rig.log);
    assert_eq!(visible(&rig, run(1, 0)), Some("a,b"));
    assert_eq!(visible(&rig, run(2, 0)), Some(""), "it has asked for none");
    let environment = &rig.environments[&run(1, 0)];
    assert_eq!(environment.len(), 2, "each variable once: {environment:?}");
    assert!(matches!(
        &rig.replies[0],
        Reply::Started { devices, .. } if *devices == shares(&["a", "b"])
    ));
    assert_eq!(evidence(&rig).runs[0].devices, shares(&["a", "b"]));
}

#[test]
fn a_launch_waits_until_its_devices_are_free() {
    let mut rig = rig(false, &["a", "b"]);
    launch(&mut rig, run(1, 0), 600, &[]);
    launch(&mut rig, run(2, 0), 600, &[]);
    launch(&mut rig, run(3, 0), 600, &[]);
    launch(&mut rig, run(4, 0), 0, &[]);
    assert_eq!(visible(&rig, run(3, 0)), None);
    assert_eq!(visible(&rig, run(4, 0)), None, "it has come later");
    rig.exit(rig.pid_of(run(2, 0)), 0);
    rig.turn(10);
    assert_eq!(visible(&rig, run(3, 0)), Some("b"));
    assert_eq!(visible(&rig, run(4, 0)), Some(""));
}

#[test]
fn a_launch_for_which_there_are_no_devices_is_refused() {
    let mut rig = rig(false, &["a", "b"]);
    launch(&mut rig, run(1, 0), 3_000, &[]);
    assert_eq!(rig.take_replies(), [Reply::Refused { run: run(1, 0) }]);
    launch(&mut rig, run(2, 0), 1_000, &[]);
    launch(&mut rig, run(3, 0), 2_000, &[]);
    rig.take_replies();
    rig.request(capacity(&["a"]));
    rig.turn(10);
    assert_eq!(rig.take_replies(), [Reply::Refused { run: run(3, 0) }]);
    assert!(rig.environments.len() == 1, "no other was started");
}

#[test]
fn a_task_keeps_its_devices_for_its_next_runner() {
    let mut rig = rig(false, &["a"]);
    launch(&mut rig, run(1, 0), 1_000, &[]);
    launch(&mut rig, run(2, 0), 1_000, &[]);
    kill(&mut rig, run(1, 0), 10);
    assert_eq!(
        visible(&rig, run(2, 0)),
        None,
        "the processes of the task go on"
    );
    assert_eq!(evidence(&rig).runs[0].devices, shares(&["a"]));
    launch(&mut rig, run(1, 1), 1_000, &["a"]);
    rig.request(Request::Forget { run: run(1, 0) });
    rig.turn(20);
    assert_eq!(visible(&rig, run(1, 1)), Some("a"));
    assert_eq!(visible(&rig, run(2, 0)), None);
    rig.exit(rig.pid_of(run(1, 1)), 0);
    rig.turn(30);
    assert_eq!(visible(&rig, run(2, 0)), Some("a"));
    rig.request(Request::Forget { run: run(1, 1) });
    launch(&mut rig, run(3, 0), 1_000, &[]);
    assert_eq!(visible(&rig, run(3, 0)), None, "it was freed once");
}

#[test]
fn a_task_that_is_not_resumed_frees_its_devices_when_it_is_forgotten() {
    let mut rig = rig(false, &["a"]);
    launch(&mut rig, run(1, 0), 1_000, &[]);
    launch(&mut rig, run(2, 0), 1_000, &[]);
    kill(&mut rig, run(1, 0), 10);
    rig.request(Request::Forget { run: run(1, 0) });
    rig.turn(20);
    assert_eq!(visible(&rig, run(2, 0)), Some("a"));
}

#[test]
fn nothing_is_held_after_everything_was_killed() {
    let mut rig = rig(false, &["a", "b"]);
    launch(&mut rig, run(1, 0), 1_000, &[]);
    launch(&mut rig, run(2, 0), 1_000, &[]);
    kill(&mut rig, run(1, 0), 10);
    let (id, grace) = (9, Millis(0));
    rig.request(Request::KillEverything { id, grace });
    rig.turn(20);
    assert!(!rig.host.holds_devices(), "{:?}", rig.host);
}

#[test]
fn a_successor_holds_what_its_predecessor_has_assigned() {
    let mut rig = rig(true, &["a", "b", "c"]);
    let identity = rig.start_process(Some(run(1, 0)), None);
    rig.request(Request::Adopt {
        run: run(1, 0),
        at: Moment::default(),
        identity,
        attempt: Some(Box::new(Attempt {
            tag: "lease".to_owned(),
            devices: shares(&["a"]),
            ..Attempt::default()
        })),
    });
    rig.request(Request::HoldDevices {
        run: run(2, 3),
        devices: shares(&["b"]),
    });
    assert_eq!(evidence(&rig).runs[0].devices, shares(&["a"]));
    launch(&mut rig, run(3, 0), 1_000, &[]);
    assert_eq!(visible(&rig, run(3, 0)), Some("c"));
    launch(&mut rig, run(2, 4), 1_000, &["b"]);
    assert_eq!(visible(&rig, run(2, 4)), Some("b"));
    launch(&mut rig, run(4, 0), 1_000, &[]);
    rig.exit(rig.pid_of(run(2, 4)), 0);
    rig.turn(10);
    assert_eq!(visible(&rig, run(4, 0)), Some("b"));
}

#[test]
fn a_launch_that_fails_frees_its_devices() {
    let mut rig = rig(false, &["a"]);
    for fault in [
        StartFault::Host("no space".to_owned()),
        StartFault::Work("no such program".to_owned()),
    ] {
        rig.fault = Some(fault);
        launch(&mut rig, run(1, 0), 1_000, &[]);
        rig.request(Request::Forget { run: run(1, 0) });
    }
    rig.fault = None;
    rig.take_replies();
    launch(&mut rig, run(2, 0), 1_000, &[]);
    assert!(is_started(&rig.replies[0]), "{:?}", rig.replies);
}

/// A host with two nodes of two cores, of two threads each.
fn cores_rig() -> Rig {
    let mut rig = Rig::new(false, FAR);
    let ids = ["0,4", "1,5", "2,6", "3,7"].map(str::to_owned).to_vec();
    rig.request(Request::Capacity {
        amounts: vec![100],
        devices: [(CORE.to_owned(), ids)].into(),
        core_nodes: vec![2, 2],
    });
    rig
}

fn pinned(run: RunKey, cores: u64, pin: Pin, held: Vec<DeviceShare>) -> Request {
    let paths = AttemptPaths {
        dir: run.to_string(),
        stdout: run.to_string(),
        stderr: run.to_string(),
    };
    let launch = Launch {
        tag: format!("lease of {run}"),
        claim: vec![1],
        devices: DeviceClaim {
            amounts: [(CORE.to_owned(), cores * 1_000)].into(),
            variables: [("BATON_CPUS".to_owned(), CORE.to_owned())].into(),
            held,
            pin: Some(pin),
        },
        paths: Some(paths),
        resumes: true,
        is_runner: true,
        ..Launch::default()
    };
    Request::Launch {
        run,
        launch: Box::new(launch),
    }
}

fn cpus(rig: &Rig, run: RunKey) -> Option<&str> {
    let mut variables = rig.environments.get(&run)?.iter();
    let found = variables.find(|(name, _)| name == "BATON_CPUS");
    found.map(|(_, value)| value.as_str())
}

#[test]
fn cores_are_assigned_near_each_other_and_once() {
    let mut rig = cores_rig();
    rig.request(pinned(run(1, 0), 1, Pin::Cores, Vec::new()));
    rig.request(pinned(run(2, 0), 2, Pin::Cores, Vec::new()));
    rig.request(pinned(run(3, 0), 2, Pin::Cores, Vec::new()));
    assert_eq!(cpus(&rig, run(1, 0)), Some("0,4"));
    assert_eq!(cpus(&rig, run(2, 0)), Some("2-3,6-7"));
    assert_eq!(cpus(&rig, run(3, 0)), None, "one core is free");
    rig.exit(rig.pid_of(run(1, 0)), 0);
    rig.turn(10);
    assert_eq!(cpus(&rig, run(3, 0)), Some("0-1,4-5"));
}

#[test]
fn a_socket_has_all_cpus_of_its_node() {
    let mut rig = cores_rig();
    rig.request(pinned(run(1, 0), 1, Pin::Socket, Vec::new()));
    rig.request(pinned(run(2, 0), 1, Pin::Socket, Vec::new()));
    rig.request(pinned(run(3, 0), 2, Pin::Socket, Vec::new()));
    rig.request(pinned(run(4, 0), 3, Pin::Socket, Vec::new()));
    assert_eq!(cpus(&rig, run(1, 0)), Some("0-1,4-5"));
    assert_eq!(
        cpus(&rig, run(2, 0)),
        Some("0-1,4-5"),
        "they share the node"
    );
    assert_eq!(cpus(&rig, run(3, 0)), Some("2-3,6-7"));
    let refused = Reply::Refused { run: run(4, 0) };
    assert_eq!(
        rig.replies.last(),
        Some(&refused),
        "no node has three cores"
    );
}

#[test]
fn a_task_keeps_its_cores_for_its_next_runner() {
    let mut rig = cores_rig();
    rig.request(pinned(run(1, 0), 2, Pin::Cores, Vec::new()));
    let held = evidence(&rig).runs[0].devices.clone();
    kill(&mut rig, run(1, 0), 10);
    rig.request(pinned(run(2, 0), 3, Pin::Cores, Vec::new()));
    assert_eq!(
        cpus(&rig, run(2, 0)),
        None,
        "the processes of the task go on"
    );
    rig.request(pinned(run(1, 1), 2, Pin::Cores, held));
    rig.request(Request::Forget { run: run(1, 0) });
    assert_eq!(cpus(&rig, run(1, 1)), cpus(&rig, run(1, 0)));
    rig.exit(rig.pid_of(run(1, 1)), 0);
    rig.turn(20);
    assert_eq!(cpus(&rig, run(2, 0)), Some("0-2,4-6"));
}
