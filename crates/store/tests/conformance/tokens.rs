//! Tokens.

use baton_model::ids::{Epoch, TokenId};
use baton_model::time::Wall;
use baton_model::token::{NewToken, Role, SecretHash, Token};
use baton_store::{StoreError, TakeOutcome};

use crate::Open;

fn new(number: u16, role: Role) -> NewToken {
    let mut hash = [0xab; 32];
    hash[..2].copy_from_slice(&number.to_le_bytes());
    NewToken {
        name: format!("number {number}"),
        role,
        owner: None,
        fleet: None,
        hash: SecretHash(hash),
        created_at: Wall(1_000),
        expires_at: None,
    }
}

fn stored(id: u64, new: NewToken) -> Token {
    Token {
        id: TokenId(id),
        name: new.name,
        role: new.role,
        owner: None,
        fleet: None,
        hash: new.hash,
        created_at: new.created_at,
        expires_at: new.expires_at,
        revoked: false,
    }
}

pub(crate) fn a_token_is_stored_as_created(open: Open<'_>) {
    let store = open();
    assert_eq!(store.tokens(), Ok(Vec::new()));
    let mut wanted = Vec::new();
    for (number, role) in (1..).zip(Role::ALL) {
        let new = NewToken {
            expires_at: (number % 2 == 0).then_some(Wall(2_000)),
            ..new(number, role)
        };
        let id = u64::from(number);
        assert_eq!(store.create_token(&new), Ok(TokenId(id)));
        wanted.push(stored(id, new));
    }
    assert_eq!(store.tokens(), Ok(wanted.clone()));
    drop(store);
    assert_eq!(open().tokens(), Ok(wanted), "visible to every process");
}

pub(crate) fn a_revoked_token_stays_revoked_and_others_do_not_change(open: Open<'_>) {
    let store = open();
    for number in [1, 2] {
        let made = store.create_token(&new(number, Role::Admin));
        made.expect("few");
    }
    let revoked = Token {
        revoked: true,
        ..stored(1, new(1, Role::Admin))
    };
    for _ in 0..2 {
        assert_eq!(store.revoke_token(TokenId(1)), Ok(Some(revoked.clone())));
    }
    assert_eq!(store.revoke_token(TokenId(3)), Ok(None));
    assert_eq!(store.revoke_token(TokenId(u64::MAX)), Ok(None));
    let other = stored(2, new(2, Role::Admin));
    assert_eq!(open().tokens(), Ok(vec![revoked, other]));
}

pub(crate) fn a_secret_belongs_to_one_token(open: Open<'_>) {
    let store = open();
    store.create_token(&new(1, Role::Viewer)).expect("new");
    let again = store.create_token(&new(1, Role::Admin));
    assert!(matches!(again, Err(StoreError::Failed(_))), "{again:?}");
    assert_eq!(store.tokens().expect("readable").len(), 1);
}

pub(crate) fn tokens_are_made_beside_a_leader_and_do_not_disturb_it(open: Open<'_>) {
    let (leader, other) = (open(), open());
    let first = Epoch::new(1, 1);
    let taken = leader.take(Epoch(0), first).expect("takeable");
    assert!(matches!(taken, TakeOutcome::Won(..)));
    let id = other.create_token(&new(1, Role::Worker)).expect("new");
    assert_eq!(leader.renew(first), Ok(()));
    assert_eq!(leader.tokens().expect("readable").len(), 1);
    other.revoke_token(id).expect("there");
    assert!(leader.tokens().expect("readable")[0].revoked);
}
