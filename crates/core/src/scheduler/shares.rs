//! Shares of owners in fair turns, as they are set at run time.

use baton_model::fact::Fact;
use baton_model::limits::SHARES_MAX;

use crate::scheduler::context::Cx;

/// Why a share cannot be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum ShareError {
    #[error("there are too many shares already")]
    TooMany,
}

/// Sets the weight of an owner; 1 removes it.
pub(super) fn set(cx: &mut Cx<'_>, owner: String, weight: u32) -> Result<(), ShareError> {
    let known = cx.ledger.shares();
    let before = known.get(&owner).copied().unwrap_or(1);
    if before == weight {
        return Ok(());
    }
    if known.len() >= SHARES_MAX && !known.contains_key(&owner) {
        return Err(ShareError::TooMany);
    }
    cx.bullpen.set_share(&owner, weight);
    cx.commit(Fact::ShareSet { owner, weight });
    Ok(())
}
