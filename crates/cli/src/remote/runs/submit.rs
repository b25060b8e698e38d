//! `baton submit` of a workflow.

use std::io::Write;

use baton_client::Client;
use baton_files::WorkflowFile;
use baton_model::api::SubmitRun;
use baton_model::ids::RunId;
use serde_json::Value;

use super::super::{refused, submit::line};
use super::accepted;
use super::follow::{How, ended, follow};
use crate::local::params as given;
use crate::output::{Ended, Failure, Output};

/// What is sent for a workflow. What is wrong with it, or with its parameters, is told here,
/// with its lines.
pub(crate) fn wanted(
    file: &WorkflowFile,
    params: &[(String, String)],
) -> Result<SubmitRun<Value>, Failure> {
    let params = given(params)?;
    file.plan(&params).map_err(Failure::usage)?;
    Ok(SubmitRun {
        file: file.to_json(),
        params,
        open: false,
    })
}

/// How whoever submits a workflow goes on.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Then {
    pub(in super::super) wait: bool,
    pub(in super::super) watch: bool,
    pub(in super::super) json: bool,
}

pub(in super::super) async fn run(
    file: &WorkflowFile,
    params: &[(String, String)],
    then: Then,
    client: &Client,
) -> Ended {
    let submit = wanted(file, params)?;
    let answer = client.submit_run(&submit).await.map_err(refused)?;
    let run: RunId = accepted(&answer)?;
    let waits = then.wait || then.watch;
    let mut out = Output::new();
    match (then.json, waits) {
        (true, false) => out.json(&answer)?,
        (true, true) => line(&mut out, &answer)?,
        (false, _) => writeln!(out, "{run}")?,
    }
    out.flush()?;
    if !waits {
        return out.done();
    }
    let how = match then.watch || !then.json {
        true => How::Shown,
        false => How::Quiet,
    };
    let seen = follow(client, run, how).await?;
    if then.json {
        line(&mut out, &seen)?;
    }
    out.done()?;
    ended(&seen)
}
