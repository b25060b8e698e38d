//! The URL of a bucket: `s3://BUCKET/PREFIX?endpoint=URL&region=NAME`.
//!
//! What the URL leaves out comes from the variables that other clients of S3 read. It never has
//! credentials.

use std::fmt;
use std::str::FromStr;

use reqwest::Url;
use rusty_s3::{Bucket, UrlStyle};

const REGION_DEFAULT: &str = "us-east-1";

/// Where collected logs go, instead of the data directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogBucket {
    bucket: String,
    /// Empty, or with a slash at its end.
    prefix: String,
    endpoint: Option<Url>,
    region: Option<String>,
}

impl LogBucket {
    pub(super) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// The bucket at its endpoint.
    pub(super) fn resolve(
        &self,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Bucket, String> {
        let first = |names: [&str; 2]| names.into_iter().find_map(&variable);
        let region = self.region.clone();
        let region = region.or_else(|| first(["AWS_REGION", "AWS_DEFAULT_REGION"]));
        let region = region.unwrap_or_else(|| REGION_DEFAULT.to_owned());
        let endpoint = match &self.endpoint {
            Some(endpoint) => Some(endpoint.clone()),
            None => first(["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"])
                .map(|text| endpoint(&text))
                .transpose()?,
        };
        // Servers other than that of AWS seldom have a host name for each bucket, and its
        // certificate covers no name with a dot.
        let style = if endpoint.is_some() || self.bucket.contains('.') {
            UrlStyle::Path
        } else {
            UrlStyle::VirtualHost
        };
        let endpoint = match endpoint {
            Some(endpoint) => endpoint,
            None => endpoint_of(&region)?,
        };
        Bucket::new(endpoint, style, self.bucket.clone(), region).map_err(|error| error.to_string())
    }
}

fn endpoint_of(region: &str) -> Result<Url, String> {
    endpoint(&format!("https://s3.{region}.amazonaws.com"))
}

fn endpoint(text: &str) -> Result<Url, String> {
    let bad = || format!("endpoint {text}: expected a URL such as https://minio.example:9000");
    let url: Url = text.parse().map_err(|_| bad())?;
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
        return Err(bad());
    }
    no_credentials(&url)?;
    Ok(url)
}

fn no_credentials(url: &Url) -> Result<(), String> {
    if url.username().is_empty() && url.password().is_none() {
        return Ok(());
    }
    Err(
        "other users can read the command line; put credentials into AWS_ACCESS_KEY_ID and \
         AWS_SECRET_ACCESS_KEY, or into ~/.aws/credentials"
            .to_owned(),
    )
}

impl FromStr for LogBucket {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected =
            "expected s3://BUCKET/PREFIX, or s3://BUCKET/PREFIX?endpoint=URL&region=NAME";
        let url: Url = text.parse().map_err(|_| expected.to_owned())?;
        let bucket = url.host_str().filter(|_| url.scheme() == "s3");
        let bucket = bucket.ok_or(expected)?.to_owned();
        no_credentials(&url)?;
        let prefix = url.path().trim_matches('/');
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
        if !prefix.chars().all(plain) || prefix.split('/').any(|part| part.starts_with('.')) {
            return Err("a prefix has letters, digits, -, _, . and /".to_owned());
        }
        let prefix = match prefix {
            "" => String::new(),
            prefix => format!("{prefix}/"),
        };
        let mut location = Self {
            bucket,
            prefix,
            endpoint: None,
            region: None,
        };
        for (name, value) in url.query_pairs() {
            match &*name {
                "endpoint" => location.endpoint = Some(endpoint(&value)?),
                "region" => location.region = Some(value.into_owned()),
                _ => return Err(format!("unknown parameter {name}; {expected}")),
            }
        }
        Ok(location)
    }
}

impl fmt::Display for LogBucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "s3://{}/{}", self.bucket, self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str, variables: &[(&str, &str)]) -> String {
        let location: LogBucket = text.parse().expect("valid");
        let variable = |name: &str| {
            let mut found = variables.iter().filter(|(known, _)| *known == name);
            found.next().map(|(_, value)| (*value).to_owned())
        };
        let bucket = location.resolve(variable).expect("a bucket");
        let key = format!("{}x", location.prefix());
        format!("{} {}", bucket.region(), bucket.object_url(&key))
    }

    #[test]
    fn what_a_url_leaves_out_comes_from_the_environment() {
        let region = ("AWS_REGION", "eu-west-1");
        let endpoint = ("AWS_ENDPOINT_URL", "http://other:9000");
        for (text, variables, expected) in [
            (
                "s3://logs",
                &[][..],
                "us-east-1 https://logs.s3.us-east-1.amazonaws.com/x",
            ),
            (
                "s3://my.logs/a/b/",
                &[region],
                "eu-west-1 https://s3.eu-west-1.amazonaws.com/my.logs/a/b/x",
            ),
            (
                "s3://logs/a",
                &[region, endpoint],
                "eu-west-1 http://other:9000/logs/a/x",
            ),
            (
                "s3://logs/a?endpoint=https://minio:9000&region=home",
                &[region, endpoint],
                "home https://minio:9000/logs/a/x",
            ),
        ] {
            assert_eq!(url(text, variables), expected, "{text}");
        }
    }

    #[test]
    fn other_urls_are_refused_with_a_reason() {
        for (text, reason) in [
            ("logs", "expected s3://"),
            ("https://logs/a", "expected s3://"),
            ("s3:///a", "expected s3://"),
            ("s3://key:secret@logs/a", "AWS_SECRET_ACCESS_KEY"),
            ("s3://logs/a?endpoint=minio:9000", "endpoint minio:9000"),
            ("s3://logs/a?endpoint=http://k:s@minio", "AWS_SECRET"),
            ("s3://logs/a?secret=b", "unknown parameter secret"),
            ("s3://logs/a%20b", "a prefix has"),
            ("s3://logs/a/.b", "a prefix has"),
        ] {
            let error = text.parse::<LogBucket>().expect_err(text);
            assert!(error.contains(reason), "{text}: {error}");
        }
    }
}
