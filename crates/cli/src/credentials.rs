//! The token that this process shows: from a file or from the environment, never from the
//! command line, which everybody on the machine can read.

use std::path::Path;

use baton_model::token::Secret;

use crate::output::Failure;

/// The variable that holds a token.
pub(crate) const TOKEN_VARIABLE: &str = "BATON_TOKEN";

/// The token of the file, or else of the environment; `None` if nobody gave one.
pub(crate) fn token(file: Option<&Path>) -> Result<Option<Secret>, Failure> {
    if let Some(file) = file {
        let shown = file.display();
        let text = std::fs::read_to_string(file);
        let text = text.map_err(|error| {
            Failure::usage(format!("cannot read the token in {shown}: {error}"))
        })?;
        return secret(&text, &shown.to_string()).map(Some);
    }
    match std::env::var(TOKEN_VARIABLE) {
        Ok(text) if !text.is_empty() => secret(&text, TOKEN_VARIABLE).map(Some),
        Ok(_) | Err(std::env::VarError::NotPresent) => Ok(None),
        Err(std::env::VarError::NotUnicode(_)) => Err(no_token(TOKEN_VARIABLE)),
    }
}

fn secret(text: &str, place: &str) -> Result<Secret, Failure> {
    Secret::parse(text.trim()).ok_or_else(|| no_token(place))
}

/// Without the text: it may be a secret with a slip of the pen.
fn no_token(place: &str) -> Failure {
    Failure::usage(format!(
        "{place} holds no token; it should be one line as `baton token create` has printed it, \
         and begin with {}",
        Secret::PREFIX
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_holds_one_token_and_what_it_holds_instead_is_not_printed() {
        let dir = tempfile::tempdir().expect("a place");
        let path = dir.path().join("token");
        let good = Secret::from_bits([7; 32]);
        std::fs::write(&path, format!("{}\n", good.expose())).expect("written");
        assert!(matches!(token(Some(&path)), Ok(Some(read)) if read == good));
        std::fs::write(&path, "baton_slip").expect("written");
        let Err(Failure::Told(2, text)) = token(Some(&path)) else {
            panic!("it must be wrong usage");
        };
        assert!(!text.contains("slip"), "{text}");
        assert!(token(Some(&dir.path().join("none"))).is_err());
    }
}
