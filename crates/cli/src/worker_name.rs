//! Names of workers from patterns.

use baton_runner::sys::{random, users};

/// Values of a host for the placeholders of a pattern. None of what is not known here.
#[derive(Debug, Default)]
pub(crate) struct Host {
    hostname: String,
    pid: u32,
    slurm_job: Option<String>,
    slurm_task: Option<String>,
    random: u64,
}

impl Host {
    /// This process, on this host.
    pub(crate) fn current() -> Self {
        let variable = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
        Self {
            hostname: users::hostname(),
            pid: std::process::id(),
            slurm_job: variable("SLURM_JOB_ID"),
            slurm_task: variable("SLURM_PROCID"),
            random: random::number(),
        }
    }

    fn value(&self, placeholder: &str) -> Result<String, String> {
        let of_slurm = |value: &Option<String>, variable: &str| {
            value.clone().ok_or_else(|| {
                format!("{{{placeholder}}} is known in a Slurm job only: {variable} is not set")
            })
        };
        match placeholder {
            "host" => Ok(self.hostname.clone()),
            "pid" => Ok(self.pid.to_string()),
            "slurm_job" => of_slurm(&self.slurm_job, "SLURM_JOB_ID"),
            "slurm_task" => of_slurm(&self.slurm_task, "SLURM_PROCID"),
            "random" => Ok(format!("{:08x}", self.random & 0xffff_ffff)),
            other => Err(format!(
                "{{{other}}} is unknown; write {{host}}, {{pid}}, {{slurm_job}}, {{slurm_task}} or \
                 {{random}}"
            )),
        }
    }
}

/// The name that a pattern stands for.
pub(crate) fn expand(pattern: &str, host: &Host) -> Result<String, String> {
    let (mut name, mut rest) = (String::new(), pattern);
    while let Some((before, after)) = rest.split_once('{') {
        let Some((placeholder, beyond)) = after.split_once('}') else {
            return Err(format!("`{{{after}` has no closing brace"));
        };
        name.push_str(before);
        name.push_str(&host.value(placeholder)?);
        rest = beyond;
    }
    name.push_str(rest);
    Ok(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host() -> Host {
        Host {
            hostname: "node7".to_owned(),
            pid: 42,
            slurm_job: Some("815".to_owned()),
            slurm_task: None,
            random: 0x1_0000_00ab,
        }
    }

    #[test]
    fn placeholders_are_replaced() {
        let expand = |pattern| expand(pattern, &host());
        assert_eq!(expand("{host}"), Ok("node7".to_owned()));
        let all = "w-{slurm_job}-{pid}-{random}";
        assert_eq!(expand(all), Ok("w-815-42-000000ab".to_owned()));
        assert_eq!(expand("plain"), Ok("plain".to_owned()));
    }

    #[test]
    fn unknown_and_missing_placeholders_are_errors() {
        let error = expand("{node}", &host()).expect_err("unknown");
        assert!(error.contains("{slurm_job}"), "{error}");
        let error = expand("{slurm_task}", &host()).expect_err("missing");
        assert!(error.contains("SLURM_PROCID"), "{error}");
        let error = expand("{host", &host()).expect_err("open");
        assert!(error.contains("closing brace"), "{error}");
    }
}
