//! The form that adds or changes an entry of the library.
//!
//! A text is parsed here, so that an error has its line; everything else is for the API to decide. The
//! form has the revision that its text was made from, and replaces no other one.

use axum::extract::{Request, State};
use axum::http::{Method, StatusCode, header};
use axum::response::Response;
use baton_files::Format;
use baton_model::api::{DefineReply, Problem, Task};
use baton_model::library::TaskName;
use baton_web::frame::Refresh;
use baton_web::pages::edit::{self, Checked, EditPage, TextError};
use baton_web::yaml;
use serde::Deserialize;
use serde_json::Value;

use super::api_client::{ApiClient, problem};
use super::session::{form, old_form};
use super::show::{pairs, parameter};
use super::{Pages, html, redirect};
use crate::http::views::task_path;
use crate::limits::FORM_BYTES_MAX;

/// The fields of the form.
#[derive(Deserialize)]
struct Fields {
    #[serde(default)]
    csrf: String,
    /// `OWNER/NAME`; empty for a new entry.
    #[serde(default)]
    entry: String,
    /// The revision that the text was made from; 0 if there must be none.
    #[serde(default)]
    revision: u32,
    #[serde(default)]
    text: String,
    /// `check` or `save`.
    #[serde(default, rename = "do")]
    operation: String,
}

/// The form: empty, or with the current definition of an entry.
pub(super) async fn show(State(pages): State<Pages>, request: Request) -> Response {
    let api = ApiClient::new(&pages, &request);
    let entry = parameter(&pairs(&request), "entry");
    match filled(&pages, &api, entry).await {
        Ok(response) => response,
        Err(problem) => pages.error(&api, problem, None),
    }
}

async fn filled(pages: &Pages, api: &ApiClient, entry: String) -> Result<Response, Problem> {
    // As for any other page: who may not read is asked to sign in.
    api.get::<Value>("/").await?;
    if !api.session.viewer(pages).may_operate {
        let detail = "only operators and admins change the library";
        return Err(problem(403, detail));
    }
    let fields = if entry.is_empty() {
        Fields {
            text: edit::NEW.to_owned(),
            ..Fields::of(entry, 0)
        }
    } else {
        let current = current(api, &entry).await?;
        if let Some(file) = current.file {
            let detail =
                format!("the file {file} of the library directory defines it: change that");
            return Err(problem(409, &detail));
        }
        Fields {
            text: yaml::render(&current.definition.unwrap_or_default()),
            ..Fields::of(entry, current.revision)
        }
    };
    Ok(page(pages, api, fields, StatusCode::OK, Checked::default()))
}

/// Checks or saves a text.
pub(super) async fn submit(State(pages): State<Pages>, request: Request) -> Response {
    let api = ApiClient::new(&pages, &request);
    // A form of anyone else is not read.
    if api.session.caller().is_none() {
        return pages.error(&api, problem(401, "sign in first"), None);
    }
    let mut fields: Fields = match form(request, FORM_BYTES_MAX).await {
        Ok(fields) => fields,
        Err(problem) => return pages.error(&api, problem, None),
    };
    if Some(&fields.csrf) != api.session.form_token(&pages).as_ref() {
        return pages.error(&api, old_form(), Some(fields.back()));
    }
    fields.text = fields.text.replace("\r\n", "\n");
    let (name, file) = match parsed(&fields) {
        Ok(parsed) => parsed,
        Err(checked) => {
            return page(
                &pages,
                &api,
                fields,
                StatusCode::UNPROCESSABLE_ENTITY,
                *checked,
            );
        }
    };
    let saves = fields.operation == "save";
    match define(&api, &fields, &name, &file, !saves).await {
        Ok(_) if saves => redirect(&task_path(&name.owner, &name.name)),
        Ok(reply) => {
            let outcome = format!(
                "{name}: would be {}, revision {}",
                reply.change, reply.revision
            );
            let checked = Checked {
                outcome: Some(outcome),
                definitions: changes(&api, &name, file).await,
                ..Checked::default()
            };
            page(&pages, &api, fields, StatusCode::OK, checked)
        }
        Err(refusal) => refused(&pages, &api, fields, &name, file, refusal).await,
    }
}

/// The form after a refusal. If another client has changed the entry, it has the changes against the
/// revision that is current now, which a second attempt replaces.
async fn refused(
    pages: &Pages,
    api: &ApiClient,
    mut fields: Fields,
    name: &TaskName,
    file: Value,
    refusal: Problem,
) -> Response {
    if matches!(refusal.status, 401 | 403) {
        return pages.error(api, refusal, Some(fields.back()));
    }
    let status = StatusCode::from_u16(refusal.status);
    let mut checked = Checked::refused(refusal);
    if matches!(status, Ok(StatusCode::PRECONDITION_FAILED))
        && let Ok(current) = current(api, &name.to_string()).await
    {
        checked.problem = Some(format!(
            "{name} has revision {} now, and the text was made from {}. To save replaces revision {}.",
            current.revision,
            match fields.revision {
                0 => "none".to_owned(),
                revision => format!("revision {revision}"),
            },
            current.revision
        ));
        fields.revision = current.revision;
        fields.entry = name.to_string();
        checked.definitions = current.definition.map(|current| (current, file));
    }
    let status = status.unwrap_or(StatusCode::UNPROCESSABLE_ENTITY);
    page(pages, api, fields, status, checked)
}

impl Fields {
    fn of(entry: String, revision: u32) -> Self {
        Self {
            csrf: String::new(),
            entry,
            revision,
            text: String::new(),
            operation: String::new(),
        }
    }

    /// The page of the entry, or the library.
    fn back(&self) -> String {
        match self.entry.parse::<TaskName>() {
            Ok(name) => task_path(&name.owner, &name.name),
            Err(_) => "/library/".to_owned(),
        }
    }
}

fn page(
    pages: &Pages,
    api: &ApiClient,
    fields: Fields,
    status: StatusCode,
    checked: Checked,
) -> Response {
    let title = match &*fields.entry {
        "" => "Add an entry".to_owned(),
        entry => format!("Change {entry}"),
    };
    let mut frame = pages.frame(api, title, "/library/");
    // What was typed stays.
    frame.refresh = Refresh::Never;
    let back = fields.back();
    let page = EditPage::new(
        frame,
        fields.entry,
        fields.revision,
        fields.text,
        back,
        checked,
    );
    html(status, &page)
}

async fn current(api: &ApiClient, entry: &str) -> Result<Task<Value>, Problem> {
    let name: TaskName = entry.parse().map_err(|it: String| problem(400, &it))?;
    api.get(&task_path(&name.owner, &name.name)).await
}

/// The current definition of an entry and that of a text, if there is a current one.
async fn changes(api: &ApiClient, name: &TaskName, file: Value) -> Option<(Value, Value)> {
    let current = current(api, &name.to_string()).await.ok()?;
    Some((current.definition?, file))
}

/// The entry that a text defines, and its file as JSON.
fn parsed(fields: &Fields) -> Result<(TaskName, Value), Box<Checked>> {
    let file = baton_files::parse_any(fields.text.as_bytes(), Format::Yaml, "definition");
    let named = file.and_then(|file| Ok((file.definition(None)?.0, file.to_json())));
    let (name, file) = named.map_err(|errors| {
        let count = errors.problems.len() + errors.left_off;
        let problems = if count == 1 { "problem" } else { "problems" };
        let at = errors.problems.into_iter().map(|it| TextError {
            line: it.position.map(|at| at.line),
            column: it.position.map(|at| at.column),
            field: it.path,
            message: it.message,
            hint: it.hint,
        });
        Box::new(Checked {
            errors: at.collect(),
            problem: Some(format!(
                "The text has {count} {problems}; nothing was changed."
            )),
            ..Checked::default()
        })
    })?;
    // An existing entry keeps its name; the API tells of a text that has another one.
    Ok((fields.entry.parse().unwrap_or(name), file))
}

async fn define(
    api: &ApiClient,
    fields: &Fields,
    name: &TaskName,
    file: &Value,
    dry: bool,
) -> Result<DefineReply, Problem> {
    let condition = match fields.revision {
        0 => (header::IF_NONE_MATCH, "*".to_owned()),
        revision => (header::IF_MATCH, format!("\"r{revision}\"")),
    };
    let path = task_path(&name.owner, &name.name);
    let path = if dry {
        format!("{path}?dryRun=true")
    } else {
        path
    };
    let body = Some(file.to_string());
    let answered = api.send(Method::PUT, &path, body, &[condition]).await?;
    answered.parse()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_definition_as_text_is_read_back_as_it_was() {
        let definition = json!({
            "task": "t",
            "owner": "ann",
            "params": { "day": "1.10", "flag": "yes", "none": null },
            "env": { "A": "x: {y} # z", "EMPTY": "" },
            "processes": [
                { "name": "a", "run": "set -e\nmake all\n" },
                { "name": "b", "run": ["echo", "- a", "tab\t"], "after": ["a"] },
            ],
            "retry": {},
            "priority": -5,
        });
        let fields = Fields {
            text: yaml::render(&definition),
            ..Fields::of("ann/other".to_owned(), 1)
        };
        let (name, read) = parsed(&fields).expect("valid");
        assert_eq!(read, definition, "{}", fields.text);
        assert_eq!(name.to_string(), "ann/other", "an entry keeps its name");
        assert!(
            fields
                .text
                .contains("    run: |\n      set -e\n      make all\n"),
            "{}",
            fields.text
        );
    }
}
