//! | file | holds |
//! |---|---|
//! | `ends` | 1 to 4, 13 and 14: ends, and how they are told |
//! | `replay` | 5, 7, 8, 9 and 12: going on after a crash |
//! | `strangers` | 6, 10 and 11: who is whose, and who is nobody's |
//! | `escapes` | processes that try to get away |

mod ends;
mod escapes;
mod replay;
mod strangers;
