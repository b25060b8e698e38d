//! Forms that change something: each is one operation of the API, or one for each selected row.
//!
//! The API authorizes the operation like that of any client. A form also carries a token that only
//! pages of this server know, and a browser must not say that it comes from elsewhere.

use std::collections::BTreeMap;

use axum::extract::{Request, State};
use axum::http::{Method, header};
use axum::response::Response;
use baton_model::api::{FieldProblem, Problem};
use baton_model::json;
use baton_web::address::local;
use baton_web::pages::launch::Refusal;
use baton_web::pages::limit_form::LimitForm;
use baton_web::time::day;
use serde_json::{Map, Value, json};

use super::api_client::{Answered, ApiClient, problem};
use super::session::{form, old_form};
use super::{Pages, entry, lists, redirect};
use crate::http::views::encoded;
use crate::limits::FORM_BYTES_MAX;

/// Rows that a form may select.
const SELECTED_MAX: usize = 1_000;

/// Errors of selected rows that are shown.
const ERRORS_SHOWN_MAX: usize = 10;

const IDEMPOTENCY_KEY: header::HeaderName = header::HeaderName::from_static("idempotency-key");

/// Fields of a form, in order.
struct Fields(Vec<(String, String)>);

impl Fields {
    fn one(&self, name: &str) -> Option<&str> {
        let mut fields = self.0.iter();
        let found = fields.find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_str())
    }

    fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let fields = self.0.iter().filter(move |(key, _)| key == name);
        fields.map(|(_, value)| value.as_str())
    }

    /// The body of the operation: given whole, as parameters, or as the days of an interval.
    fn body(&self) -> Result<Option<String>, Problem> {
        if let (Some(from), Some(to)) = (self.one("from-day"), self.one("to-day")) {
            let (Some(from), Some(to)) = (day(from), day(to)) else {
                return Err(problem(400, "a day is written as 2026-01-31"));
            };
            return Ok(Some(json!({ "from": from, "to": to }).to_string()));
        }
        Ok(self.plain_body())
    }

    fn plain_body(&self) -> Option<String> {
        let typed = self.typed();
        // A default may contain references, which a given value must not.
        let changed = typed.into_iter().filter(|(name, typed)| {
            let default = self.one(&format!("default.{name}"));
            default.is_none_or(|default| unified(default) != typed.text)
        });
        let params: Map<String, Value> = changed
            .map(|(name, typed)| (name, Value::from(typed.value())))
            .collect();
        if !params.is_empty() {
            return Some(json!({ "params": params }).to_string());
        }
        let body = self.one("body").filter(|body| !body.is_empty());
        body.map(str::to_owned)
    }

    /// What was typed for each parameter. The last field of a name counts: an unchecked box sends
    /// only the one before it.
    fn typed(&self) -> BTreeMap<String, Typed> {
        let fields = self.0.iter().filter_map(|(key, value)| {
            let (kind, name) = key.split_once('.')?;
            let is_list = match kind {
                "param" => false,
                "list" => true,
                _ => return None,
            };
            let text = unified(value);
            Some((name.to_owned(), Typed { is_list, text }))
        });
        fields.collect()
    }
}

/// The text of a field for a parameter.
struct Typed {
    /// Whether each line is a value of a list.
    is_list: bool,
    text: String,
}

impl Typed {
    /// The value of the parameter.
    fn value(self) -> String {
        if !self.is_list || self.text.trim_start().starts_with('[') {
            return self.text;
        }
        let lines = self.text.lines().map(str::trim);
        let lines: Vec<&str> = lines.filter(|line| !line.is_empty()).collect();
        Value::from(lines).to_string()
    }
}

/// A text with the ends of lines of Unix: browsers send others.
fn unified(text: &str) -> String {
    text.replace("\r\n", "\n")
}

pub(super) async fn act(State(pages): State<Pages>, request: Request) -> Response {
    let api = ApiClient::new(&pages, &request);
    // A form of anyone else is not read.
    if api.session.caller().is_none() {
        return pages.error(&api, problem(401, "sign in first"), None);
    }
    let fields = match form(request, FORM_BYTES_MAX).await {
        Ok(fields) => Fields(fields),
        Err(problem) => return pages.error(&api, problem, None),
    };
    let back = local(fields.one("back").unwrap_or("/")).to_owned();
    let token = api.session.form_token(&pages);
    if token.is_none() || fields.one("csrf") != token.as_deref() {
        return pages.error(&api, old_form(), Some(back));
    }
    let outcome = match (fields.one("selected"), fields.one("target")) {
        (None, None) if fields.one("form") == Some("limit") => set_limit(&api, &fields).await,
        (Some(operation), _) => selected(&api, operation, &fields).await.map(|()| None),
        (None, Some(target)) => perform(&api, target, &fields).await,
        (None, None) => Err(problem(400, "the form names no operation")),
    };
    match outcome {
        Ok(created) => redirect(&created.unwrap_or(back)),
        Err(problem) if is_refused(&problem) && fields.one("form") == Some("launch") => {
            let typed = fields.typed().into_iter();
            let typed = typed.map(|(name, typed)| (name, typed.text)).collect();
            entry::refused(&pages, &api, &back, Refusal { typed, problem }).await
        }
        Err(problem) if is_refused(&problem) && fields.one("form") == Some("limit") => {
            let typed = |name| fields.one(name).unwrap_or_default().to_owned();
            let form = LimitForm::refused(typed("name"), typed("capacity"), problem);
            let page = lists::limits(&pages, &api, form).await;
            page.unwrap_or_else(|problem| pages.error(&api, problem, Some(back)))
        }
        Err(problem) => pages.error(&api, problem, Some(back)),
    }
}

/// Whether the values of a form may be the reason.
fn is_refused(problem: &Problem) -> bool {
    matches!(problem.status, 400 | 409 | 422 | 429)
}

/// Sets the limit of a form.
async fn set_limit(api: &ApiClient, fields: &Fields) -> Result<Option<String>, Problem> {
    let typed = |name| fields.one(name).unwrap_or_default().trim();
    let wrong = |field: &str, message: &str, hint: &str| Problem {
        errors: vec![FieldProblem {
            field: field.to_owned(),
            message: message.to_owned(),
            hint: hint.to_owned(),
        }],
        ..problem(422, "the form has an error; nothing was changed")
    };
    if typed("name").is_empty() {
        let hint = "write a name such as licences or db/orders";
        return Err(wrong("name", "it is empty", hint));
    }
    let not_whole = |_| {
        let hint = "write a number such as 4, or a rate such as 10/s";
        wrong("capacity", "it is not a whole number", hint)
    };
    let whole = |text: &str| text.parse::<u64>().map_err(not_whole);
    // A rate as the list shows it: `10/s, burst 20`.
    let body = match typed("capacity").split_once(", burst ") {
        Some((rate, burst)) => json!({ "rate": rate, "burst": whole(burst)? }),
        None if typed("capacity").contains('/') => json!({ "rate": typed("capacity") }),
        None => json!({ "capacity": whole(typed("capacity"))? }),
    };
    let target = format!("PUT /limits/{}", encoded(typed("name")));
    let body = body.to_string();
    send(api, &target, Some(body), &[]).await.map(|_| None)
}

/// Carries out `METHOD /path`; returns the address of what it has created, or of the list without what
/// is gone.
async fn perform(
    api: &ApiClient,
    target: &str,
    fields: &Fields,
) -> Result<Option<String>, Problem> {
    let more: Vec<_> = fields
        .one("key")
        .map(|key| (IDEMPOTENCY_KEY, key.to_owned()))
        .into_iter()
        .collect();
    let answered = send(api, target, fields.body()?, &more).await?;
    if target.starts_with("DELETE /") && target.contains("/tasks/") {
        // The page of an entry is gone with it.
        return Ok(Some("/library/".to_owned()));
    }
    let reply: Value = json::from_slice(&answered.body).unwrap_or(Value::Null);
    let mut links = [
        "/links/control",
        "/links/backfill",
        "/links/workers",
        "/links/fleets",
    ]
    .iter();
    // A link with a method is an operation: an entry has one for backfills.
    let created = links.find_map(|link| {
        let path = reply.pointer(link)?.as_str()?;
        path.starts_with('/').then(|| path.to_owned())
    });
    Ok(created)
}

async fn send(
    api: &ApiClient,
    target: &str,
    body: Option<String>,
    more: &[(header::HeaderName, String)],
) -> Result<Answered, Problem> {
    let wrong = || problem(400, "the operation must be POST, PUT or DELETE of a path");
    let (method, path) = target.split_once(' ').ok_or_else(wrong)?;
    let method = match method {
        "POST" => Method::POST,
        "PUT" => Method::PUT,
        "DELETE" => Method::DELETE,
        _ => return Err(wrong()),
    };
    if local(path) != path {
        return Err(wrong());
    }
    let answered = api.send(method, path, body, more).await?;
    if answered.status.is_success() {
        return Ok(answered);
    }
    Err(answered.problem())
}

/// Carries out the same operation for each selected row.
async fn selected(api: &ApiClient, operation: &str, fields: &Fields) -> Result<(), Problem> {
    let rows: Vec<&str> = fields.all("id").collect();
    if rows.is_empty() {
        return Err(problem(400, "nothing is selected"));
    }
    if rows.len() > SELECTED_MAX {
        let detail = format!("at most {SELECTED_MAX} rows can be selected");
        return Err(problem(400, &detail));
    }
    let mut errors = Vec::new();
    for row in &rows {
        let target = match operation {
            "cancel" => format!("DELETE {row}"),
            "kill" => format!("POST {row}/kill"),
            "retry" => format!("POST {row}/retry"),
            _ => return Err(problem(400, "rows can be cancelled, killed or retried")),
        };
        if !row.starts_with("/instances/") {
            return Err(problem(400, "a row must be an instance or a range"));
        }
        if let Err(problem) = send(api, &target, None, &[]).await {
            errors.push(FieldProblem {
                field: row.trim_start_matches("/instances/").to_owned(),
                message: problem.detail,
                hint: String::new(),
            });
        }
    }
    if errors.is_empty() {
        return Ok(());
    }
    let detail = format!(
        "{operation} failed for {} of {} rows",
        errors.len(),
        rows.len()
    );
    errors.truncate(ERRORS_SHOWN_MAX);
    Err(Problem {
        errors,
        ..problem(409, &detail)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(fields: &[(&str, &str)]) -> Option<String> {
        let fields = fields.iter();
        let fields = fields.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Fields(fields.collect()).plain_body()
    }

    #[test]
    fn only_changed_parameters_are_sent() {
        let fields = [("default.n", "3"), ("param.n", "3"), ("body", "")];
        assert_eq!(body(&fields), None);
        let fields = [("default.n", "3"), ("param.n", "4")];
        assert_eq!(body(&fields).as_deref(), Some(r#"{"params":{"n":"4"}}"#));
        let fields = [("default.text", "a\nb"), ("param.text", "a\r\nb")];
        assert_eq!(body(&fields), None);
    }

    #[test]
    fn an_unchecked_box_is_false() {
        let unchecked = [("default.b", "true"), ("param.b", "false")];
        assert_eq!(
            body(&unchecked).as_deref(),
            Some(r#"{"params":{"b":"false"}}"#)
        );
        let checked = [
            ("default.b", "true"),
            ("param.b", "false"),
            ("param.b", "true"),
        ];
        assert_eq!(body(&checked), None);
    }

    #[test]
    fn the_lines_of_a_list_are_its_values() {
        let of = |text: &str| body(&[("default.l", "x"), ("list.l", text)]);
        let lines = Some(r#"{"params":{"l":"[\"a, b\",\"c\"]"}}"#);
        assert_eq!(of("a, b\r\n\r\n c \r\n").as_deref(), lines);
        assert_eq!(
            of("[1, 2]").as_deref(),
            Some(r#"{"params":{"l":"[1, 2]"}}"#)
        );
        assert_eq!(of("").as_deref(), Some(r#"{"params":{"l":"[]"}}"#));
        assert_eq!(of("x"), None);
    }
}
