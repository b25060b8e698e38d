//! The document as a page: plain HTML, without scripts and without anything from elsewhere.

use utoipa::openapi::path::{Operation, Parameter, PathItem};
use utoipa::openapi::{OpenApi, RefOr, Required, Response};

const STYLE: &str = "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;\
    padding:0 1rem;color-scheme:light dark}h2{margin-top:2.5rem}section{border-top:1px solid #8886;\
    padding:.5rem 0}code{font-family:ui-monospace,monospace}table{border-collapse:collapse}\
    td{padding:.1rem 1rem .1rem 0;vertical-align:top}";

pub(super) fn render(api: &OpenApi) -> String {
    let title = escaped(&api.info.title);
    let version = escaped(&api.info.version);
    let about = api.info.description.as_deref().map(escaped);
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width\"><title>{title}</title>\
         <style>{STYLE}</style></head>\n<body><h1>{title} {version}</h1>\n<p>{}</p>\n\
         <p>For machines: <a href=\"/openapi.json\">openapi.json</a></p>\n",
        about.unwrap_or_default()
    );
    for tag in api.tags.iter().flatten() {
        let about = tag.description.as_deref().unwrap_or_default();
        let name = escaped(&tag.name);
        page.push_str(&format!("<h2>{name}</h2>\n<p>{}</p>\n", escaped(about)));
        for (path, item) in &api.paths.paths {
            for (method, operation) in methods(item) {
                let tags = operation.tags.iter().flatten();
                if tags.into_iter().any(|it| *it == tag.name) {
                    section(&mut page, method, path, operation);
                }
            }
        }
    }
    page.push_str("</body></html>\n");
    page
}

fn methods(item: &PathItem) -> impl Iterator<Item = (&'static str, &Operation)> {
    let all = [
        ("GET", &item.get),
        ("PUT", &item.put),
        ("POST", &item.post),
        ("DELETE", &item.delete),
    ];
    let there = all.into_iter();
    there.filter_map(|(method, operation)| Some((method, operation.as_ref()?)))
}

fn section(page: &mut String, method: &str, path: &str, operation: &Operation) {
    let summary = operation.summary.as_deref().unwrap_or_default();
    let more = operation.description.as_deref().unwrap_or_default();
    page.push_str(&format!(
        "<section><h3><code>{method} {}</code></h3>\n<p>{}</p>\n<p>{}</p>\n<table>\n",
        escaped(path),
        escaped(summary),
        escaped(more)
    ));
    for parameter in operation.parameters.iter().flatten() {
        if let RefOr::T(parameter) = parameter {
            row(page, &parameter.name, &about(parameter));
        }
    }
    for (status, response) in &operation.responses.responses {
        if let RefOr::T(response) = response {
            row(page, status, &said(response));
        }
    }
    page.push_str("</table></section>\n");
}

fn about(parameter: &Parameter) -> String {
    let text = parameter.description.clone().unwrap_or_default();
    match parameter.required {
        Required::True => text,
        Required::False => format!("{text} (may be left out)"),
    }
}

fn said(response: &Response) -> String {
    let mut text = response.description.clone();
    for media in response.content.keys() {
        text.push_str(&format!(" {media}"));
    }
    for header in response.headers.keys() {
        text.push_str(&format!(" [{header}]"));
    }
    text
}

fn row(page: &mut String, name: &str, text: &str) {
    let (name, text) = (escaped(name), escaped(text));
    page.push_str(&format!(
        "<tr><td><code>{name}</code></td><td>{text}</td></tr>\n"
    ));
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}
