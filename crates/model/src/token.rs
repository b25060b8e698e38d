//! Credentials: tokens and roles.
//!
//! A token is a name, a role and a secret. The secret is shown once, to the creator of the token;
//! the store knows only its hash. `baton_store::token` generates and hashes secrets; the server's
//! route table defines the role that each request requires.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::fleet::FleetName;
use crate::ids::TokenId;
use crate::limits::TOKEN_NAME_CHARS_MAX;
use crate::time::Wall;

/// The permissions of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, strum::IntoStaticStr)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "kebab-case", const_into_str)]
pub enum Role {
    /// Read only.
    Viewer,
    /// Everything about instances, runs and tasks; draining workers.
    Operator,
    Admin,
    /// Connects as a worker, and nothing else.
    Worker,
}

impl Role {
    pub const ALL: [Self; 4] = [Self::Viewer, Self::Operator, Self::Admin, Self::Worker];

    /// True if this role has all permissions of `needed`.
    #[must_use]
    pub const fn covers(self, needed: Self) -> bool {
        match (self, needed) {
            (Self::Admin, _) => true,
            (Self::Operator, Self::Operator | Self::Viewer) => true,
            (Self::Viewer, Self::Viewer) | (Self::Worker, Self::Worker) => true,
            (Self::Operator | Self::Viewer | Self::Worker, _) => false,
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.into_str())
    }
}

impl FromStr for Role {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|role| role.into_str() == text);
        found.ok_or_else(|| "a role is viewer, operator, admin or worker".to_owned())
    }
}

impl FromStr for TokenId {
    type Err = String;

    /// Reads `t7` or `7`.
    fn from_str(text: &str) -> Result<Self, String> {
        let digits = text.strip_prefix('t').unwrap_or(text);
        let plain = digits.bytes().all(|byte| byte.is_ascii_digit());
        let number = digits.parse().ok().filter(|_| plain);
        // Stores keep ids as signed numbers.
        let number = number.filter(|number| *number <= i64::MAX.unsigned_abs());
        let wrong = || "the id of a token is a number such as t7".to_owned();
        number.map(Self).ok_or_else(wrong)
    }
}

/// The SHA-256 of a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SecretHash(pub [u8; 32]);

/// The secret of a token: [`Secret::PREFIX`] and 64 hexadecimal digits. `Debug` does not print it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// The prefix of every secret, so that people and scanners recognise one.
    pub const PREFIX: &str = "baton_";

    /// The secret of these random bits.
    #[must_use]
    pub fn from_bits(bits: [u8; 32]) -> Self {
        let mut text = Self::PREFIX.to_owned();
        for byte in bits {
            text += &format!("{byte:02x}");
        }
        Self(text)
    }

    /// Parses a secret; `None` if the text cannot be one.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.strip_prefix(Self::PREFIX)?;
        let plain = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        (digits.len() == 64 && digits.bytes().all(plain)).then(|| Self(text.to_owned()))
    }

    /// The text of the secret.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// A token that is about to be stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewToken {
    pub name: String,
    pub role: Role,
    /// Restricts it to the objects of this owner.
    pub owner: Option<String>,
    /// Restricts it to the pilots of this fleet, for which the scheduler has issued it.
    pub fleet: Option<FleetName>,
    pub hash: SecretHash,
    pub created_at: Wall,
    /// The end of its validity, if it has one.
    pub expires_at: Option<Wall>,
}

/// A token as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    pub id: TokenId,
    pub name: String,
    pub role: Role,
    /// Restricts it to the objects of this owner.
    pub owner: Option<String>,
    /// Restricts it to the pilots of this fleet, for which the scheduler has issued it.
    pub fleet: Option<FleetName>,
    pub hash: SecretHash,
    pub created_at: Wall,
    /// The end of its validity, if it has one.
    pub expires_at: Option<Wall>,
    pub revoked: bool,
}

impl Token {
    /// True if it is neither revoked nor expired.
    #[must_use]
    pub fn is_valid(&self, now: Wall) -> bool {
        !self.revoked && self.expires_at.is_none_or(|end| now < end)
    }
}

/// Checks the name of a new token.
///
/// # Errors
/// If it is empty, too long, or contains control characters.
pub fn check_name(name: &str) -> Result<(), String> {
    if name.is_empty() || name.chars().count() > TOKEN_NAME_CHARS_MAX {
        return Err(format!(
            "the name of a token has 1 to {TOKEN_NAME_CHARS_MAX} characters"
        ));
    }
    if name.chars().any(char::is_control) {
        return Err("the name of a token is one line of plain text".to_owned());
    }
    Ok(())
}

/// Checks the owner to which a new token is restricted.
///
/// # Errors
/// If the role cannot be restricted, or the owner is not a valid name.
pub fn check_owner(role: Role, owner: &str) -> Result<(), String> {
    if !matches!(role, Role::Viewer | Role::Operator) {
        return Err(format!(
            "only viewer and operator tokens can be restricted to one owner, not {role} tokens"
        ));
    }
    if owner.is_empty() || owner.contains('/') || owner.chars().any(char::is_control) {
        return Err("an owner is one word of plain text, without slashes".to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_cover_what_is_below_them_and_workers_stand_apart() {
        use Role::{Admin, Operator, Viewer, Worker};
        let covered = |role: Role| Role::ALL.into_iter().filter(move |it| role.covers(*it));
        assert_eq!(covered(Viewer).collect::<Vec<_>>(), [Viewer]);
        assert_eq!(covered(Operator).collect::<Vec<_>>(), [Viewer, Operator]);
        assert_eq!(covered(Admin).count(), 4);
        assert_eq!(covered(Worker).collect::<Vec<_>>(), [Worker]);
        for role in Role::ALL {
            assert_eq!(role.into_str().parse(), Ok(role));
        }
    }

    #[test]
    fn a_secret_is_read_back_and_nothing_like_it_is() {
        let secret = Secret::from_bits([0xa5; 32]);
        let text = secret.expose().to_owned();
        assert_eq!(text, format!("baton_{}", "a5".repeat(32)));
        assert_eq!(Secret::parse(&text), Some(secret));
        let long = format!("{text}0");
        let (short, loud) = (&text[..text.len() - 1], text.to_uppercase());
        for bad in ["", "baton_", short, &long, &loud, &text[6..], "baton_ä"] {
            assert_eq!(Secret::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_secret_is_not_printed_with_what_holds_it() {
        let shown = format!("{:?}", Some(Secret::from_bits([7; 32])));
        assert!(!shown.contains("07"), "{shown}");
    }

    #[test]
    fn a_token_is_valid_until_it_expires_or_is_revoked() {
        let token = Token {
            id: TokenId(1),
            name: "ci".to_owned(),
            role: Role::Viewer,
            owner: None,
            fleet: None,
            hash: SecretHash([0; 32]),
            created_at: Wall(5),
            expires_at: Some(Wall(10)),
            revoked: false,
        };
        assert!(token.is_valid(Wall(9)));
        assert!(!token.is_valid(Wall(10)));
        let revoked = Token {
            revoked: true,
            ..token
        };
        assert!(!revoked.is_valid(Wall(9)));
    }

    #[test]
    fn ids_of_tokens_are_read_with_and_without_their_letter() {
        for good in ["t7", "7"] {
            assert_eq!(good.parse(), Ok(TokenId(7)));
        }
        for bad in [
            "",
            "t",
            "tt7",
            "+7",
            "-7",
            "i7",
            "7 ",
            "9223372036854775808",
        ] {
            assert!(bad.parse::<TokenId>().is_err(), "{bad}");
        }
    }

    #[test]
    fn names_are_short_lines() {
        assert_eq!(check_name("the build of ünit 7"), Ok(()));
        for bad in ["", "a\nb", "\u{1b}[2J", &"x".repeat(101)] {
            assert!(check_name(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn only_who_looks_or_operates_does_so_for_one_owner() {
        assert_eq!(check_owner(Role::Viewer, "lab"), Ok(()));
        assert_eq!(check_owner(Role::Operator, "lab"), Ok(()));
        for (role, owner) in [
            (Role::Admin, "lab"),
            (Role::Worker, "lab"),
            (Role::Viewer, ""),
            (Role::Viewer, "a/b"),
        ] {
            assert!(check_owner(role, owner).is_err(), "{role} {owner}");
        }
    }
}
