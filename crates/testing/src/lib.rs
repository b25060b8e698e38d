//! What the tests of several crates share. A dev-dependency only: no shipped binary contains it.
//!
//! | module | holds |
//! |---|---|
//! | [`ca`] | a certificate authority that signs for tests |

pub mod ca;
