//! | file | is about |
//! |---|---|
//! | `order` | who runs when, and what a failure costs |
//! | `finals` | final, ephemeral and daemon processes |
//! | `deaths` | processes, coordinators and runners that are killed |
//! | `surroundings` | what a process is launched with |
//! | `logs` | where output goes |
//! | `checks` | readiness, health, timeouts |
//! | `people` | the command line: interrupting, killing, refusing |
//! | `looking` | the commands that only look |

mod checks;
mod deaths;
mod finals;
mod logs;
mod looking;
mod order;
mod people;
mod surroundings;
