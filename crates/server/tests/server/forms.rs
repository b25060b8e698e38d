//! Forms that set limits and change the library: what they refuse, where they say why, and what stays.

use baton_model::token::Role;
use reqwest::{Method, StatusCode};
use serde_json::json;

use crate::rig::{Server, config};
use crate::web::{Browser, demanding, form_token, text, tokens};

const TASK: &str = "task: daily\nowner: ann\nrun: echo one\n";

async fn refusal(response: reqwest::Response, status: StatusCode) -> String {
    assert_eq!(response.status(), status);
    response.text().await.expect("a page")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_error_of_a_definition_has_its_line_field_and_hint() {
    let dir = tempfile::tempdir().expect("a place");
    let server = Server::start(config(dir.path())).await;
    let browser = Browser::new(&server);
    let form = browser.page("/-/edit").await;
    let csrf = form_token(&form);
    let send = async |operation: &str, text: &str| {
        let fields = [("csrf", csrf), ("text", text), ("do", operation)];
        browser.submit("/-/edit", &fields).await
    };
    let wrong = "task: daily\r\nowner: ann\r\nrunn: <b>\r\n";
    for operation in ["check", "save"] {
        let page = refusal(
            send(operation, wrong).await,
            StatusCode::UNPROCESSABLE_ENTITY,
        );
        let page = page.await;
        for part in [
            "data-line=\"3\">line 3, column 1</a>",
            "<code>runn</code>",
            "did you mean `run`?",
            // What was typed stays.
            "runn: &#60;b&#62;\n",
        ] {
            assert!(page.contains(part), "{part} in {page}");
        }
    }
    // What only the scheduler knows is told at its field, without a line.
    let cycle = format!("{TASK}trigger: {{ after: [ann/daily] }}\n");
    let page = refusal(send("save", &cycle).await, StatusCode::UNPROCESSABLE_ENTITY).await;
    assert!(page.contains("<code>trigger.after"), "{page}");
    let checked = refusal(send("check", TASK).await, StatusCode::OK).await;
    assert!(
        checked.contains("ann/daily: would be created, revision 1"),
        "{checked}"
    );
    let path = "/ann/tasks/daily";
    assert_eq!(server.get(path).await.status, StatusCode::NOT_FOUND);
    let saved = send("save", TASK).await;
    assert_eq!(saved.status(), StatusCode::SEE_OTHER);
    assert_eq!(text(&saved, "location"), path);
    assert_eq!(server.get(path).await.body["definition"]["run"], "echo one");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_form_replaces_only_the_revision_that_its_reader_has_seen() {
    let dir = tempfile::tempdir().expect("a place");
    let server = Server::start(config(dir.path())).await;
    let path = "/ann/tasks/daily";
    let define = async |command: &str| {
        let file = json!({"task": "daily", "owner": "ann", "run": command});
        let request = server.request(Method::PUT, path).json(&file);
        let request = match command {
            "echo one" => request.header("if-none-match", "*"),
            _ => request.header("if-match", "*"),
        };
        assert!(request.send().await.expect("sent").status().is_success());
    };
    define("echo one").await;
    let browser = Browser::new(&server);
    let form = browser.page("/-/edit?entry=ann/daily").await;
    assert!(form.contains("name=\"revision\" value=\"1\""), "{form}");
    assert!(
        form.contains("run: echo one\n"),
        "the current definition: {form}"
    );
    define("echo two").await;
    let mine = TASK.replace("one", "mine");
    let send = async |revision: &str| {
        let fields = [
            ("csrf", form_token(&form)),
            ("entry", "ann/daily"),
            ("revision", revision),
            ("text", &mine),
            ("do", "save"),
        ];
        browser.submit("/-/edit", &fields).await
    };
    let page = refusal(send("1").await, StatusCode::PRECONDITION_FAILED).await;
    assert!(page.contains("has revision 2 now"), "{page}");
    assert!(
        page.contains("<span class=\"del\">- run: echo two"),
        "{page}"
    );
    assert!(page.contains("run: echo mine"), "what was typed: {page}");
    assert!(page.contains("name=\"revision\" value=\"2\""), "{page}");
    assert_eq!(server.get(path).await.body["definition"]["run"], "echo two");
    assert_eq!(send("2").await.status(), StatusCode::SEE_OTHER);
    assert_eq!(
        server.get(path).await.body["definition"]["run"],
        "echo mine"
    );
    // A new entry replaces none.
    let fields = [("csrf", form_token(&form)), ("text", TASK), ("do", "save")];
    let exists = browser.submit("/-/edit", &fields).await;
    assert_eq!(exists.status(), StatusCode::PRECONDITION_FAILED);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn viewers_get_no_form_of_the_library_and_cannot_send_one() {
    let dir = tempfile::tempdir().expect("a place");
    let [(_, viewer), (_, operator)] = tokens(dir.path(), [Role::Viewer, Role::Operator]);
    let server = Server::start(demanding(config(dir.path()))).await;
    let mut browser = Browser::new(&server);
    let cookie = |token: &str| format!("baton-{}={token}", server.ready.clients.port());
    assert_eq!(
        browser.get("/-/edit").await.status(),
        StatusCode::UNAUTHORIZED
    );
    browser.cookie = Some(cookie(viewer.expose()));
    assert_eq!(browser.get("/-/edit").await.status(), StatusCode::FORBIDDEN);
    let page = browser.page("/library/").await;
    assert!(!page.contains("/-/edit"), "{page}");
    let own = browser.page("/").await;
    let fields = [("csrf", form_token(&own)), ("text", TASK), ("do", "save")];
    let refused = browser.submit("/-/edit", &fields).await;
    assert_eq!(refused.status(), StatusCode::FORBIDDEN);
    browser.cookie = Some(cookie(operator.expose()));
    // The token of another session's form.
    let refused = browser.submit("/-/edit", &fields).await;
    assert_eq!(refused.status(), StatusCode::FORBIDDEN);
    let page = browser.page("/-/edit").await;
    let fields = [("csrf", form_token(&page)), ("text", TASK), ("do", "save")];
    let saved = browser.submit("/-/edit", &fields).await;
    assert_eq!(saved.status(), StatusCode::SEE_OTHER);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_form_of_a_limit_says_at_its_field_what_is_wrong() {
    let dir = tempfile::tempdir().expect("a place");
    let server = Server::start(config(dir.path())).await;
    let browser = Browser::new(&server);
    let page = browser.page("/limits/").await;
    let csrf = form_token(&page);
    let send = async |name: &str, capacity: &str| {
        let fields = [
            ("csrf", csrf),
            ("form", "limit"),
            ("name", name),
            ("capacity", capacity),
            ("back", "/limits/"),
        ];
        browser.submit("/-/act", &fields).await
    };
    for (name, capacity, field, message) in [
        ("db/orders", "many", "capacity", "it is not a whole number"),
        ("db/orders", "-1", "capacity", "it is not a whole number"),
        ("db/orders", "10/x", "capacity", "10/x"),
        ("cpu", "4", "name", "not the name of a custom resource"),
        ("", "4", "name", "it is empty"),
    ] {
        let page = refusal(send(name, capacity).await, StatusCode::UNPROCESSABLE_ENTITY);
        let page = page.await;
        let error = format!("<span class=\"error\" id=\"error-limit-{field}\">");
        let at = page.find(&error).unwrap_or_else(|| panic!("{page}"));
        assert!(page[at..at + 200].contains(message), "{name}: {page}");
        assert!(page.contains(&format!("value=\"{name}\"")), "{page}");
        let limits = server.get("/limits/").await;
        assert_eq!(limits.body["items"], json!([]));
    }
    let set = send("db/orders", "4").await;
    assert_eq!(set.status(), StatusCode::SEE_OTHER);
    assert_eq!(text(&set, "location"), "/limits/");
    let limit = server.get("/limits/db%2Forders").await;
    assert_eq!(limit.body["capacity"], 4);
    let page = browser.page("/limits/").await;
    assert!(page.contains("DELETE /limits/db%2Forders"), "{page}");
    // A rate is sent back as it is shown.
    for typed in ["10/s", "10/s, burst 20"] {
        let set = send("api", typed).await;
        assert_eq!(set.status(), StatusCode::SEE_OTHER);
        let limit = server.get("/limits/api").await;
        assert_eq!(limit.body["rate"], "10/s");
    }
    let page = browser.page("/limits/").await;
    assert!(page.contains("value=\"10/s, burst 20\""), "{page}");
    server.stop().await;
}
