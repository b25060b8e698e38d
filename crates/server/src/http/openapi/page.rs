//! The OpenAPI document as plain HTML, without scripts and external resources.

use serde_json::Value;

const STYLE: &str = "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;\
    padding:0 1rem;color-scheme:light dark}h2{margin-top:2.5rem}section{border-top:1px solid #8886;\
    padding:.5rem 0}code{font-family:ui-monospace,monospace}table{border-collapse:collapse}\
    td{padding:.1rem 1rem .1rem 0;vertical-align:top}";

/// The methods in the order in which the page lists them.
const METHODS: [&str; 4] = ["get", "put", "post", "delete"];

/// Renders an OpenAPI document. Missing fields stay empty.
pub(super) fn render(document: &str) -> String {
    let api: Value = serde_json::from_str(document).unwrap_or_default();
    let info = &api["info"];
    let title = escaped(text(&info["title"]));
    let version = escaped(text(&info["version"]));
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width\"><title>{title}</title>\
         <style>{STYLE}</style></head>\n<body><h1>{title} {version}</h1>\n<p>{}</p>\n\
         <p>Machine-readable: <a href=\"/openapi.json\">openapi.json</a></p>\n",
        escaped(text(&info["description"]))
    );
    for tag in items(&api["tags"]) {
        let (name, about) = (
            escaped(text(&tag["name"])),
            escaped(text(&tag["description"])),
        );
        page.push_str(&format!("<h2>{name}</h2>\n<p>{about}</p>\n"));
        for (path, item) in entries(&api["paths"]) {
            for method in METHODS {
                let operation = &item[method];
                if items(&operation["tags"]).any(|it| *it == tag["name"]) {
                    section(&mut page, method, path, operation);
                }
            }
        }
    }
    page.push_str("</body></html>\n");
    page
}

fn section(page: &mut String, method: &str, path: &str, operation: &Value) {
    page.push_str(&format!(
        "<section><h3><code>{} {}</code></h3>\n<p>{}</p>\n<p>{}</p>\n<table>\n",
        method.to_uppercase(),
        escaped(path),
        escaped(text(&operation["summary"])),
        escaped(text(&operation["description"]))
    ));
    for parameter in items(&operation["parameters"]) {
        let optional = if parameter["required"] == true {
            ""
        } else {
            " (optional)"
        };
        let about = format!("{}{optional}", text(&parameter["description"]));
        row(page, text(&parameter["name"]), &about);
    }
    for (status, response) in entries(&operation["responses"]) {
        row(page, status, &summary(response));
    }
    page.push_str("</table></section>\n");
}

/// A response in one line: its description, media types and headers.
fn summary(response: &Value) -> String {
    let mut line = text(&response["description"]).to_owned();
    for (media, _) in entries(&response["content"]) {
        line.push_str(&format!(" {media}"));
    }
    for (header, _) in entries(&response["headers"]) {
        line.push_str(&format!(" [{header}]"));
    }
    line
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn entries(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flatten()
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
