//! | file | is about |
//! |---|---|
//! | `order` | the order of processes, and the effect of failures |
//! | `finals` | final, ephemeral and daemon processes |
//! | `deaths` | processes, coordinators and runners that are killed |
//! | `environment` | the environment of a process |
//! | `logs` | where output goes |
//! | `checks` | readiness, health, timeouts |
//! | `commands` | the command line: interrupts, kills, refusals |
//! | `inspection` | the read-only commands |

mod checks;
mod commands;
mod deaths;
mod environment;
mod finals;
mod inspection;
mod logs;
mod order;
