//! | file | holds |
//! |---|---|
//! | `ends` | 1 to 4, 13 and 14: ends and their reports |
//! | `replay` | 5, 7, 8, 9 and 12: resuming after a crash |
//! | `process_identity` | 6, 10 and 11: which process belongs to which task |
//! | `escapes` | processes that try to escape |

mod ends;
mod escapes;
mod process_identity;
mod replay;
