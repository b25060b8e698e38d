//! The document matches the routes.

use std::collections::{BTreeMap, BTreeSet};

use axum::body::Body;
use axum::http::{Method, Request, StatusCode, header};
use axum::response::Response;
use baton_model::api::MEDIA_TYPE;
use hyper::service::Service as _;
use hyper_util::service::TowerToHyperService;
use serde_json::Value;

use super::super::problem::PROBLEM;
use super::super::routes::{ROUTES, Service};
use super::super::{service, testing};
use super::*;

/// A media type that no response of the API has.
const JSON: &str = "application/json";

/// `BATON_REWRITE` writes it instead: see `make golden`.
#[cfg(feature = "openapi")]
#[test]
fn the_committed_description_is_what_the_handlers_are_annotated_with() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/openapi.json");
    let generated = generate::text();
    if std::env::var_os("BATON_REWRITE").is_some() {
        std::fs::write(path, generated).expect("written");
        return;
    }
    let same = TEXT.lines().zip(generated.lines());
    let line = same.take_while(|(a, b)| a == b).count() + 1;
    assert!(
        *TEXT == generated,
        "{path}:{line}: differs from the annotations; run `make golden`, and read the diff"
    );
}

fn parsed() -> Value {
    serde_json::from_str(&TEXT).expect("the document is JSON")
}

/// The whole service, called like a client would.
struct Client(TowerToHyperService<Service>);

impl Client {
    fn new() -> Self {
        Self(TowerToHyperService::new(service(testing::app())))
    }

    async fn answer(&self, method: Method, path: &str) -> Response {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::HOST, "localhost")
            .body(Body::empty())
            .expect("a plain request");
        self.0.call(request).await.expect("it always answers")
    }

    /// The methods that a path supports, according to Allow.
    async fn taken(&self, path: &str) -> BTreeSet<String> {
        let options = self.answer(Method::OPTIONS, path).await;
        assert_eq!(options.status(), StatusCode::NO_CONTENT, "{path}");
        let allow = options.headers()[header::ALLOW].to_str().expect("text");
        let methods = allow.split(',').map(|word| word.trim().to_lowercase());
        methods.filter(|method| method != "head").collect()
    }
}

/// Each path of the table once, with its methods.
fn paths() -> BTreeMap<&'static str, BTreeSet<String>> {
    let mut paths = BTreeMap::<_, BTreeSet<_>>::new();
    for route in ROUTES {
        let methods = paths.entry(route.path).or_default();
        methods.insert(route.method.to_lowercase());
    }
    paths
}

fn keys(item: &Value) -> BTreeSet<String> {
    item.as_object()
        .expect("an object")
        .keys()
        .cloned()
        .collect()
}

#[cfg(feature = "openapi")]
#[test]
fn every_handler_is_annotated_with_the_method_and_the_path_of_its_route() {
    let annotations = super::super::routes::annotations();
    assert_eq!(annotations.len(), ROUTES.len());
    for (route, annotation) in ROUTES.iter().zip(annotations) {
        let annotated = serde_json::to_value(annotation.paths).expect("plain");
        let expected = BTreeSet::from([route.path.to_owned()]);
        assert_eq!(keys(&annotated), expected, "{route:?}");
        let expected = BTreeSet::from([route.method.to_lowercase()]);
        assert_eq!(keys(&annotated[route.path]), expected, "{route:?}");
    }
}

#[tokio::test]
async fn every_route_is_described_with_exactly_the_methods_it_takes() {
    let client = Client::new();
    let document = parsed();
    for (path, methods) in paths() {
        assert_eq!(keys(&document["paths"][path]), methods, "{path}");
        assert_eq!(client.taken(path).await, methods, "{path}");
    }
    for path in keys(&document["paths"]) {
        assert!(paths().contains_key(path.as_str()), "{path} is no route");
    }
}

#[tokio::test]
async fn a_path_is_answered_alike_with_and_without_its_slash() {
    let client = Client::new();
    for (path, methods) in paths() {
        let other = match path.strip_suffix('/') {
            Some("") => continue,
            Some(without) => without.to_owned(),
            None => format!("{path}/"),
        };
        assert_eq!(client.taken(&other).await, methods, "{other}");
        let patch = client.answer(Method::PATCH, &other).await;
        assert_eq!(patch.status(), StatusCode::METHOD_NOT_ALLOWED, "{other}");
    }
    let unknown = client.answer(Method::GET, "/nothing/").await;
    assert_eq!(unknown.status(), StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn head_is_answered_wherever_get_is_and_any_other_method_is_refused_with_those_taken() {
    let client = Client::new();
    for path in paths().into_keys() {
        let taken = client.taken(path).await;
        let head = client.answer(Method::HEAD, path).await.status();
        let refused = head == StatusCode::METHOD_NOT_ALLOWED;
        assert_eq!(refused, !taken.contains("get"), "HEAD {path}");
        let patch = client.answer(Method::PATCH, path).await;
        assert_eq!(patch.status(), StatusCode::METHOD_NOT_ALLOWED, "{path}");
        let allow = patch.headers()[header::ALLOW].to_str().expect("text");
        for method in &taken {
            assert!(allow.to_lowercase().contains(method), "{path}: {allow}");
        }
    }
}

#[tokio::test]
async fn no_other_web_page_is_told_that_it_may_read() {
    let client = Client::new();
    for path in paths().into_keys() {
        for method in [Method::GET, Method::OPTIONS] {
            let answer = client.answer(method, path).await;
            let names = answer.headers().keys();
            let mut cors = names.filter(|name| name.as_str().starts_with("access-control-"));
            assert_eq!(cors.next(), None, "{path}");
        }
    }
}

/// Each operation, with its path.
fn operations(document: &Value) -> Vec<(String, &Value)> {
    let paths = document["paths"].as_object().expect("paths").iter();
    let operations = paths.flat_map(|(path, item)| {
        let methods = item.as_object().expect("methods").iter();
        methods.map(move |(method, operation)| (format!("{method} {path}"), operation))
    });
    operations.collect()
}

#[test]
fn answers_have_the_media_type_of_the_api_and_errors_are_problems() {
    let document = parsed();
    let mut ids = BTreeSet::new();
    for (name, operation) in operations(&document) {
        let id = operation["operationId"].as_str().expect("an id");
        assert!(ids.insert(id), "{id} twice");
        let summary = operation["summary"].as_str().unwrap_or_default();
        assert!(!summary.is_empty(), "{name} has no summary");
        let responses = operation["responses"].as_object().expect("responses");
        assert!(responses.contains_key("403"), "{name}");
        for (status, response) in responses {
            let Some(content) = response["content"].as_object() else {
                continue;
            };
            assert!(!content.contains_key(JSON), "{name} {status}");
            let error = status.starts_with(['4', '5']) && name != "get /readyz";
            let problem = content.contains_key(PROBLEM);
            assert!(!error || problem, "{name} {status}");
        }
    }
}

/// The names of the types that a schema refers to; `None` if it is none with a name.
fn types(schema: &Value) -> Option<Vec<&str>> {
    if let Some(reference) = schema["$ref"].as_str() {
        return Some(vec![reference.strip_prefix("#/components/schemas/")?]);
    }
    // An optional body.
    let either = schema["oneOf"].as_array()?.iter();
    let either = either.filter(|it| it["type"] != "null");
    let names = either.map(|it| it["$ref"].as_str()?.strip_prefix("#/components/schemas/"));
    names.collect()
}

#[test]
fn every_request_and_every_answer_has_a_type_with_a_name() {
    let document = parsed();
    for (name, operation) in operations(&document) {
        let answers = operation["responses"].as_object().expect("responses");
        let answers = answers.values().map(|it| &it["content"]);
        for content in answers.chain([&operation["requestBody"]["content"]]) {
            for media in [MEDIA_TYPE, JSON, PROBLEM] {
                let schema = &content[media]["schema"];
                let is_named = schema.is_null() || types(schema).is_some();
                assert!(
                    is_named,
                    "{name}: {media} has no type with a name, but {schema}: name it in the annotation of its handler"
                );
            }
        }
    }
}

/// Generators name types by schemas, and read no `items: false`.
#[test]
fn no_schema_describes_an_object_in_place() {
    fn check(schema: &Value, place: &str) {
        if schema.is_null() {
            return;
        }
        let parts = ["items", "additionalProperties"].map(|key| &schema[key]);
        let properties = schema["properties"]
            .as_object()
            .into_iter()
            .flat_map(|it| it.values());
        for part in parts.into_iter().chain(properties) {
            assert!(
                part.get("properties").is_none(),
                "{place} describes an object in place: {part}"
            );
            assert!(part["items"] != false, "{place} has `items: false`");
            check(part, place);
        }
        for key in ["oneOf", "anyOf", "allOf"] {
            schema[key]
                .as_array()
                .into_iter()
                .flatten()
                .for_each(|it| check(it, place));
        }
    }
    let document = parsed();
    let schemas = document["components"]["schemas"]
        .as_object()
        .expect("schemas");
    assert!(schemas.len() > 200);
    for (name, schema) in schemas {
        assert!(!name.ends_with("_Value"), "{name}");
        check(schema, name);
    }
}

#[test]
fn every_reference_leads_somewhere() {
    fn references<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
        match value {
            Value::Object(map) => {
                found.extend(map.get("$ref").and_then(Value::as_str));
                map.values().for_each(|it| references(it, found));
            }
            Value::Array(items) => items.iter().for_each(|it| references(it, found)),
            _ => {}
        }
    }
    let document = parsed();
    let mut found = Vec::new();
    references(&document, &mut found);
    assert!(!found.is_empty());
    for reference in found {
        let pointer = reference.strip_prefix('#').expect("a local one");
        assert!(document.pointer(pointer).is_some(), "{reference}");
    }
}

#[test]
fn the_page_shows_every_operation_and_has_nothing_from_elsewhere() {
    for (name, operation) in operations(&parsed()) {
        let (method, path) = name.split_once(' ').expect("two words");
        let heading = format!("<code>{} {path}</code>", method.to_uppercase());
        assert!(PAGE.contains(&heading), "{heading}");
        let summary = operation["summary"].as_str().expect("a summary");
        assert!(PAGE.contains(summary), "{summary}");
    }
    for foreign in ["<script", "http://", "https://", "src="] {
        assert!(!PAGE.contains(foreign), "{foreign}");
    }
}
