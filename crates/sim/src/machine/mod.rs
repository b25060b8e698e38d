//! One machine: a small kernel, a disk, and a coordinator that runs the real host on them.
//!
//! Nothing here decides, and nothing is random: the caller says when time passes, when a process
//! ends, and when a part dies. So the simulator, the golden conversations and the model checker
//! run the same machine.
//!
//! | file | simulates |
//! |---|---|
//! | [`processes`] | processes: pids that are reused, parents, groups, signals and zombies |
//! | [`kernel`] | the calls of the host, on these processes |
//! | [`disk`] | the log of the coordinator, and its pid note |
//! | [`coordinator`] | the process of a coordinator: its loop, its connection and its death |

pub mod coordinator;
pub mod disk;
pub mod kernel;
pub mod processes;
