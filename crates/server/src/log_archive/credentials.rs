//! Credentials of a bucket: from the environment, or from a file such as `~/.aws/credentials`.

use std::fs;
use std::path::{Path, PathBuf};

use rusty_s3::Credentials;

const PROFILE_DEFAULT: &str = "default";

/// Reads the credentials. `variable` reads the environment, where an empty value counts as none.
pub(super) fn load(variable: impl Fn(&str) -> Option<String>) -> Result<Credentials, String> {
    let key = variable("AWS_ACCESS_KEY_ID");
    let secret = variable("AWS_SECRET_ACCESS_KEY");
    if let (Some(key), Some(secret)) = (key, secret) {
        return Ok(credentials(key, secret, variable("AWS_SESSION_TOKEN")));
    }
    let missing = "no credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or write them \
                   into ~/.aws/credentials";
    let path = match variable("AWS_SHARED_CREDENTIALS_FILE") {
        Some(path) => PathBuf::from(path),
        None => {
            let home = variable("HOME").ok_or(missing)?;
            let path = Path::new(&home).join(".aws/credentials");
            if !path.exists() {
                return Err(missing.to_owned());
            }
            path
        }
    };
    let shown = path.display();
    let text = fs::read_to_string(&path).map_err(|error| format!("{shown}: {error}"))?;
    let profile = variable("AWS_PROFILE").unwrap_or_else(|| PROFILE_DEFAULT.to_owned());
    parse(&text, &profile).ok_or_else(|| {
        format!(
            "{shown} has no aws_access_key_id and aws_secret_access_key in [{profile}]; \
             AWS_PROFILE names another section"
        )
    })
}

fn credentials(key: String, secret: String, token: Option<String>) -> Credentials {
    match token {
        Some(token) => Credentials::new_with_token(key, secret, token),
        None => Credentials::new(key, secret),
    }
}

/// The credentials of one section.
fn parse(text: &str, profile: &str) -> Option<Credentials> {
    let header = format!("[{profile}]");
    let section = text.lines().map(str::trim).skip_while(|it| *it != header);
    let section: Vec<&str> = section
        .skip(1)
        .take_while(|it| !it.starts_with('['))
        .collect();
    let value = |name: &str| {
        section.iter().find_map(|line| {
            let (key, value) = line.split_once('=')?;
            (key.trim() == name).then(|| value.trim().to_owned())
        })
    };
    let key = value("aws_access_key_id")?;
    let secret = value("aws_secret_access_key")?;
    Some(credentials(key, secret, value("aws_session_token")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "# of the team
[default]
aws_access_key_id = one
aws_secret_access_key=a=b
[other]
aws_access_key_id = two
aws_secret_access_key = c
aws_session_token = t
[half]
aws_access_key_id = three
";

    fn found(variables: &[(&str, &str)]) -> Result<(String, String, Option<String>), String> {
        let variable = |name: &str| {
            let mut found = variables.iter().filter(|(known, _)| *known == name);
            found.next().map(|(_, value)| (*value).to_owned())
        };
        let found = load(variable)?;
        let token = found.token().map(str::to_owned);
        Ok((found.key().to_owned(), found.secret().to_owned(), token))
    }

    #[test]
    fn the_environment_comes_first_and_a_profile_names_its_section() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("credentials");
        fs::write(&path, FILE).expect("written");
        let file = ("AWS_SHARED_CREDENTIALS_FILE", path.to_str().expect("text"));
        let full = |key: &str, secret: &str, token: Option<&str>| {
            Ok((key.to_owned(), secret.to_owned(), token.map(str::to_owned)))
        };
        assert_eq!(found(&[file]), full("one", "a=b", None));
        let other = ("AWS_PROFILE", "other");
        assert_eq!(found(&[file, other]), full("two", "c", Some("t")));
        let own = [
            ("AWS_ACCESS_KEY_ID", "k"),
            ("AWS_SECRET_ACCESS_KEY", "s"),
            file,
        ];
        assert_eq!(found(&own), full("k", "s", None));
        let half = found(&[file, ("AWS_PROFILE", "half")]).expect_err("no secret");
        assert!(half.contains("[half]"), "{half}");
        let none = found(&[("HOME", "/nowhere")]).expect_err("no file");
        assert!(none.contains("AWS_ACCESS_KEY_ID"), "{none}");
    }
}
