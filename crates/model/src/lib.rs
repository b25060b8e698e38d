//! Shared data types of Baton: plain data that every other crate uses.
//!
//! | module | holds |
//! |---|---|
//! | [`alarm`] | what is late, slow, short or stuck |
//! | [`ids`] | newtypes for every name and number |
//! | [`time`] | monotonic and wall time, durations, heartbeat stamps |
//! | [`state`] | the states of the five state machines, as spelled on the wire |
//! | [`spec`] | the specification of an instance: work, resources, retry policy |
//! | [`task`] | a task: processes in an order, with their policies |
//! | [`library`] | tasks by owner and name, with their revisions and triggers |
//! | [`backfill`] | launches for past due times that have none |
//! | [`schedule`] | schedule policies (catch-up, DST), and the verdict on a due time |
//! | [`workflow`] | the specification of a workflow, and the item that an instance runs |
//! | [`coordinator`] | the calls between a coordinator and its runner or agent, and its records |
//! | [`conditions`] | what the instances of a submission start after, and how many may run and fail |
//! | [`paths`] | the directory of an instance, and the files of its output |
//! | [`fleet`] | sources of workers, and the jobs that were requested of them |
//! | [`cpu`] | lists of CPUs, and how attempts are bound to them |
//! | [`device`] | devices, and amounts of them |
//! | [`placement`] | resource requests of instances, and offers of workers |
//! | [`outcome`] | the end of an attempt, and the evidence for it |
//! | [`measurement`] | what the attempts of a task have requested and used |
//! | [`mark`] | the mark of a store, by which copies are recognised |
//! | [`fact`] | the records of the store: past tense, append-only |
//! | [`hex`] | bytes as hexadecimal digits |
//! | [`json`] | decoding of JSON |
//! | [`rate`] | rates of starts, and the values of cluster-wide limits |
//! | [`large`] | numbers above 2⁵³ in JSON |
//! | [`message`] | the calls between scheduler and worker, and their replies |
//! | [`notify`] | notifications: what is told to whom |
//! | [`timeouts`] | the time budget of the protocol; proves that the worker gives up first |
//! | [`trace`] | which trace, and which span of it, work belongs to |
//! | [`token`] | credentials and roles |
//! | [`progress`] | progress that a task reports of itself |
//! | [`principal`] | who has made a request |
//! | [`limits`] | every bound on a queue, list or loop, with its reason |
//! | [`worker_set`] | versions and hashes of the set of workers |
//!
//! Nothing here decides anything: decisions are in `baton-core`. This crate depends on
//! macros and `serde_json` only, so that every other crate may use it.

pub mod alarm;
pub mod api;
pub mod backfill;
pub mod conditions;
pub mod coordinator;
pub mod cpu;
pub mod device;
pub mod fact;
pub mod fleet;
pub mod hex;
pub mod ids;
pub mod json;
pub mod large;
pub mod library;
pub mod limits;
pub mod mark;
pub mod measurement;
pub mod message;
pub mod notify;
pub mod outcome;
pub mod paths;
pub mod placement;
pub mod principal;
pub mod progress;
pub mod rate;
pub mod schedule;
pub mod secret;
pub mod spec;
pub mod state;
pub mod task;
pub mod time;
pub mod timeouts;
pub mod token;
pub mod trace;
pub mod worker_set;
pub mod workflow;
