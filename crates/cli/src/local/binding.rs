//! Ports, variables and parameters for a task file, from the command line.

use std::collections::BTreeMap;

use baton_files::Binding;
use clap::Args;

use crate::output::{Failure, clean};
use crate::time::now;

/// Options that bind a task file.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct BindingArgs {
    /// Value of a named port of the task; may be repeated
    #[arg(short = 'P', long = "port", value_name = "NAME:PORT", value_parser = port)]
    pub(crate) ports: Vec<(String, u16)>,
    /// Environment variable for every process; may be repeated
    #[arg(short = 'E', long = "env", value_name = "NAME=VALUE", value_parser = variable)]
    pub(crate) env: Vec<(String, String)>,
    /// Value of a parameter; may be repeated
    #[arg(short = 'p', long = "param", value_name = "NAME=VALUE", value_parser = pair)]
    pub(crate) params: Vec<(String, String)>,
}

impl BindingArgs {
    /// Returns the binding. If a port is given twice, the later one counts.
    pub(crate) fn binding(&self) -> Result<Binding, Failure> {
        Ok(Binding {
            params: params(&self.params)?,
            ports: self.ports.iter().cloned().collect(),
            task_id: None,
            nominal_time: Some(now()),
            item: None,
        })
    }
}

/// Collects parameters by name. Two values for one name are an error: either may be the intended
/// one.
pub(crate) fn params(given: &[(String, String)]) -> Result<BTreeMap<String, String>, Failure> {
    let mut params = BTreeMap::new();
    for (name, value) in given {
        if let Some(before) = params.insert(name.clone(), value.clone()) {
            let (name, before, value) = (clean(name), clean(&before), clean(value));
            return Err(Failure::usage(format!(
                "the parameter {name} is given twice: `{before}` and `{value}`; remove one"
            )));
        }
    }
    Ok(params)
}

pub(crate) fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("expected NAME=VALUE".to_owned()),
    }
}

pub(crate) fn variable(text: &str) -> Result<(String, String), String> {
    let (name, value) = pair(text)?;
    if value.contains('\0') || name.contains('\0') {
        Err("an environment variable cannot contain a NUL byte".to_owned())
    } else {
        Ok((name, value))
    }
}

/// `NAME=VALUE`, or `NAME` alone.
pub(crate) fn variable_or_name(text: &str) -> Result<(String, Option<String>), String> {
    if text.is_empty() || text.contains(['=', '\0']) {
        return match variable(text) {
            Ok((name, value)) => Ok((name, Some(value))),
            Err(_) if !text.contains('\0') => Err("expected NAME=VALUE or NAME".to_owned()),
            Err(reason) => Err(reason),
        };
    }
    Ok((text.to_owned(), None))
}

fn port(text: &str) -> Result<(String, u16), String> {
    let parts = text.rsplit_once(':').filter(|(name, _)| !name.is_empty());
    let (name, port) = parts.ok_or("expected NAME:PORT, such as http:8080")?;
    match port.parse() {
        Ok(port) if port > 0 => Ok((name.to_owned(), port)),
        _ => Err("the port must be a number from 1 to 65535".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_and_values_are_taken_apart() {
        assert_eq!(port("http:80"), Ok(("http".to_owned(), 80)));
        for bad in ["http", ":80", "http:0", "http:x", "http:65536"] {
            assert!(port(bad).is_err(), "{bad}");
        }
        assert_eq!(pair("a=b=c"), Ok(("a".to_owned(), "b=c".to_owned())));
        assert_eq!(pair("a="), Ok(("a".to_owned(), String::new())));
        assert!(pair("=a").is_err() && pair("a").is_err());
    }
}
