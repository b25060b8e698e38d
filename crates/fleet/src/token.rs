//! Tokens that the scheduler issues for the pilots of a fleet.
//!
//! The file is in the fleet's directory, for its user only. It has a token of which the store already knows the hash,
//! so that a pilot that reads it at any moment is let in. Where hosts have another directory, `hosts` brings it there.

use std::fs;
use std::path::Path;

use baton_model::fleet::FleetName;
use baton_model::time::Wall;
use baton_model::token::Secret;

use crate::site::{PilotToken, Site, write_file};

/// The store of tokens.
pub trait TokenStore {
    /// Makes a token for the pilots of a fleet that is valid until then.
    ///
    /// # Errors
    /// If it is not stored.
    fn issue(&self, fleet: &FleetName, until: Wall) -> Result<Secret, String>;

    /// The end of a token, if it is a valid one of this fleet.
    fn end_of(&self, fleet: &FleetName, secret: &Secret) -> Option<Wall>;

    /// Revokes a token that nothing has.
    fn revoke(&self, secret: &Secret);
}

/// No store, where none of the pilots needs a token.
#[derive(Clone, Copy, Debug)]
pub struct NoTokens;

impl TokenStore for NoTokens {
    fn issue(&self, _: &FleetName, _: Wall) -> Result<Secret, String> {
        Err("this scheduler issues no tokens".to_owned())
    }

    fn end_of(&self, _: &FleetName, _: &Secret) -> Option<Wall> {
        None
    }

    fn revoke(&self, _: &Secret) {}
}

/// Provides a token for a fleet: keeps the one in its file if that is valid until `enough`. Returns its end, if
/// tokens are issued at all.
pub(crate) fn provide(
    tokens: &dyn TokenStore,
    site: &Site,
    fleet: &FleetName,
    until: Wall,
    enough: Wall,
) -> Result<Option<Wall>, String> {
    if site.token != PilotToken::Issued {
        return Ok(None);
    }
    let path = site.make_fleet_dir(fleet)?.join(Site::TOKEN_FILE);
    let known = read(&path).and_then(|secret| tokens.end_of(fleet, &secret));
    if let Some(end) = known.filter(|end| *end >= enough) {
        return Ok(Some(end));
    }
    let secret = tokens.issue(fleet, until)?;
    let line = format!("{}\n", secret.expose());
    let written = write_file(&path, 0o600, line.as_bytes());
    if written.is_err() {
        tokens.revoke(&secret);
    }
    written.map(|()| Some(until))
}

/// The token in a file.
pub(crate) fn read(path: &Path) -> Option<Secret> {
    Secret::parse(fs::read_to_string(path).ok()?.trim())
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use crate::site::tests::site;

    #[derive(Default)]
    struct Store {
        valid: RefCell<Vec<(Secret, Wall)>>,
    }

    impl TokenStore for Store {
        fn issue(&self, _: &FleetName, until: Wall) -> Result<Secret, String> {
            let mut valid = self.valid.borrow_mut();
            let secret = Secret::from_bits([u8::try_from(valid.len()).expect("few"); 32]);
            valid.push((secret.clone(), until));
            Ok(secret)
        }

        fn end_of(&self, _: &FleetName, secret: &Secret) -> Option<Wall> {
            let valid = self.valid.borrow();
            valid.iter().find(|it| it.0 == *secret).map(|it| it.1)
        }

        fn revoke(&self, secret: &Secret) {
            self.valid.borrow_mut().retain(|it| it.0 != *secret);
        }
    }

    #[test]
    fn a_token_is_kept_while_it_is_good_and_replaced_at_once() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut site = site(dir.path());
        site.token = PilotToken::Issued;
        let store = Store::default();
        let fleet: FleetName = "gpu".parse().expect("valid");
        let provide = |until, enough| provide(&store, &site, &fleet, Wall(until), Wall(enough));
        assert_eq!(provide(100, 50), Ok(Some(Wall(100))));
        let path = site.token_path(&fleet).expect("issued");
        let first = read(&path).expect("a token");
        let mode = fs::metadata(&path).expect("there").permissions().mode();
        assert_eq!(mode & 0o7777, 0o600);
        assert_eq!(
            provide(140, 90),
            Ok(Some(Wall(100))),
            "that of the leader before"
        );
        assert_eq!(read(&path), Some(first.clone()));
        assert_eq!(provide(160, 110), Ok(Some(Wall(160))));
        assert_ne!(read(&path), Some(first.clone()));
        assert!(
            store.end_of(&fleet, &first).is_some(),
            "pilots still have it"
        );
        fs::write(&path, "scrap").expect("ours");
        assert_eq!(provide(170, 120), Ok(Some(Wall(170))));

        // One that cannot be written is not left valid.
        fs::remove_file(&path).expect("ours");
        fs::create_dir(&path).expect("ours");
        let valid = store.valid.borrow().len();
        provide(200, 150).expect_err("a directory is there");
        assert_eq!(store.valid.borrow().len(), valid);
    }

    #[test]
    fn nothing_is_issued_where_none_is_needed() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut site = site(dir.path());
        let fleet: FleetName = "gpu".parse().expect("valid");
        for token in [PilotToken::None, PilotToken::File("/x".into())] {
            site.token = token;
            let provided = provide(&Store::default(), &site, &fleet, Wall(2), Wall(1));
            assert_eq!(provided, Ok(None));
        }
        assert!(!site.fleet_path(&fleet).exists());
    }
}
