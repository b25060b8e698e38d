//! Pages: who gets one, what is in it, and what its forms may do.

use std::path::Path;

use baton_model::ids::TokenId;
use baton_model::time::Wall;
use baton_model::token::{NewToken, Role, Secret};
use baton_server::limits::TARGET_RANGES_MAX;
use baton_server::{Config, STORE_FILE};
use baton_store::limits::PAGE_SCAN_MAX;
use baton_store::{SqliteStore, Store, token};
use baton_tls::ClientFiles;
use reqwest::{Client, Method, Response, StatusCode, redirect};
use serde_json::json;

use crate::rig::{Server, builder, config, got, task, until};
use crate::schedulers::Member;
use crate::shared_store::Shared;

/// `Accept`, as Chromium sends it.
const BROWSER: &str = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";

/// A browser: it follows no redirect by itself, so that tests see them.
pub(crate) struct Browser<'a> {
    pub(crate) server: &'a Server,
    pub(crate) http: Client,
    pub(crate) cookie: Option<String>,
}

impl<'a> Browser<'a> {
    pub(crate) fn new(server: &'a Server) -> Self {
        let http = builder(&ClientFiles::none()).redirect(redirect::Policy::none());
        Self {
            server,
            http: http.build().expect("a client"),
            cookie: None,
        }
    }

    pub(crate) async fn get(&self, path: &str) -> Response {
        self.send(self.http.get(self.server.url(path))).await
    }

    pub(crate) async fn page(&self, path: &str) -> String {
        let response = self.get(path).await;
        assert_eq!(response.status(), StatusCode::OK, "{path}");
        response.text().await.expect("a page")
    }

    /// Loads a page as its script does when it has heard of a change.
    async fn reload(&self, path: &str, change: &str, tag: Option<&str>) -> Response {
        let mut request = self.http.get(self.server.url(path));
        request = request.header("baton-change", change);
        if let Some(tag) = tag {
            request = request.header("if-none-match", tag);
        }
        self.send(request).await
    }

    pub(crate) async fn submit(&self, path: &str, fields: &[(&str, &str)]) -> Response {
        let encoded: Vec<String> = fields
            .iter()
            .map(|(name, value)| format!("{name}={}", encoded(value)))
            .collect();
        let request = self.http.post(self.server.url(path));
        let request = request.header("content-type", "application/x-www-form-urlencoded");
        self.send(request.body(encoded.join("&"))).await
    }

    pub(crate) async fn send(&self, mut request: reqwest::RequestBuilder) -> Response {
        request = request.header("accept", BROWSER);
        if let Some(cookie) = &self.cookie {
            request = request.header("cookie", cookie);
        }
        request.send().await.expect("an answer")
    }
}

fn encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

/// The token of the forms of a page.
pub(crate) fn form_token(page: &str) -> &str {
    let field = "name=\"csrf\" value=\"";
    let start = page.find(field).expect("a form") + field.len();
    let end = page[start..].find('"').expect("closed");
    &page[start..start + end]
}

pub(crate) fn text(response: &Response, header: &str) -> String {
    let value = response.headers().get(header).expect("the header");
    value.to_str().expect("plain").to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_browser_gets_a_page_for_every_address_and_other_clients_get_json() {
    let dir = tempfile::tempdir().expect("a place");
    let server = Server::start(config(dir.path())).await;
    let worker = server.worker("w1").await;
    let hostile = server.submit("<b>&\"'").await;
    let array = server.submit_array("many", 1, 3).await;
    let workflow = json!({"file": {"workflow": "w", "tasks": {"a": {"run": "true"}, "b": {"run": "true", "after": ["a"]}}}});
    server.send(Method::POST, "/runs/", &workflow).await;
    let entry = json!({"task": "daily", "owner": "ann", "run": "true", "params": {"day": "today"}, "trigger": {"schedule": "every day at 9:00"}});
    let kept = server.send(Method::POST, "/ann/tasks/", &entry).await;
    assert!(kept.status.is_success(), "{kept:?}");
    let browser = Browser::new(&server);
    for path in [
        "/",
        "/arena/",
        "/arena",
        "/bullpen/?state=&name=x",
        "/history/",
        &hostile,
        &array,
        "/runs/",
        "/runs/r1",
        "/runs/r1/items/",
        "/library/",
        "/ann/tasks/",
        "/ann/tasks/daily",
        "/backfills/",
        "/alarms/",
        "/limits/",
        "/secrets/",
        "/notifications/",
        "/workers/",
        "/workers/w1",
        "/schedulers/",
        "/usage/",
        "/events",
        "/-/keys",
        "/-/components",
        "/history/ticks/",
        "/readyz",
        "/tokens/",
    ] {
        let response = browser.get(path).await;
        assert_eq!(response.status(), StatusCode::OK, "{path}");
        assert_eq!(
            text(&response, "content-type"),
            "text/html; charset=utf-8",
            "{path}"
        );
        let policy = text(&response, "content-security-policy");
        assert!(
            policy.starts_with("default-src 'none'; script-src 'self'"),
            "{policy}"
        );
        assert!(!policy.contains("unsafe"), "{policy}");
        let page = response.text().await.expect("a page");
        assert!(
            page.contains("<title>") && page.ends_with("</html>"),
            "{path}: {page}"
        );
        assert!(!page.contains("<b>"), "{path}: a name became markup");
        assert!(
            !page.contains(" style=") && !page.contains(" onclick="),
            "{path}"
        );
    }
    let shown = browser.page(&hostile).await;
    assert!(
        shown.contains("&#60;b&#62;") || shown.contains("&lt;b&gt;"),
        "{shown}"
    );
    let missing = browser.get("/runs/r99").await;
    assert_eq!(missing.status(), StatusCode::NOT_FOUND);
    assert!(
        missing
            .text()
            .await
            .expect("a page")
            .contains("there is no run r99")
    );
    let root = server.get("/").await;
    assert_eq!(root.body["name"], "baton", "curl gets JSON");
    let (page, asset) = (browser.page("/").await, "href=\"/-/assets/");
    let start = page.find(asset).expect("assets") + "href=\"".len();
    let end = page[start..].find('"').expect("closed");
    let asset = browser.get(&page[start..start + end]).await;
    assert!(text(&asset, "cache-control").contains("immutable"));
    drop(worker);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_entry_has_the_requests_and_the_use_of_its_tasks() {
    let dir = tempfile::tempdir().expect("a place");
    let server = Server::start(config(dir.path())).await;
    let browser = Browser::new(&server);
    let resources = json!({"cpu": 2, "memory": "1GiB"});
    let entry = json!({"task": "daily", "owner": "ann", "run": "true", "resources": resources});
    server.send(Method::POST, "/ann/tasks/", &entry).await;
    let page = browser.page("/ann/tasks/daily").await;
    assert!(!page.contains("Requests and use"), "nothing was measured");
    let _worker = server.worker("w1").await;
    for _ in 0..5 {
        let launched = server
            .send(Method::POST, "/ann/tasks/daily/run", &json!({}))
            .await;
        assert!(launched.status.is_success(), "{launched:?}");
    }
    let line = "resources: { cpu: 0.2, memory: 10MiB }";
    let mut page = String::new();
    let is_shown = until(async || {
        page = browser.page("/ann/tasks/daily").await;
        page.contains(line)
    });
    assert!(is_shown.await, "{page}");
    assert!(
        page.contains("memory: 1GiB is too much, 10MiB is enough"),
        "{page}"
    );
    assert!(
        page.contains("<th scope=\"row\">daily</th><td class=\"num\">5</td>"),
        "{page}"
    );
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_is_compared_with_the_one_before_it() {
    let dir = tempfile::tempdir().expect("a place");
    let server = Server::start(config(dir.path())).await;
    let submit = async |name: &str, tasks: serde_json::Value| {
        let body = json!({"file": {"workflow": name, "tasks": tasks}});
        let sent = server.send(Method::POST, "/runs/", &body).await;
        assert!(sent.status.is_success(), "{sent:?}");
    };
    let run = json!({"run": "true"});
    submit("w", json!({"both": run, "old": run})).await;
    submit("other", json!({"a": run})).await;
    submit("w", json!({"both": run, "fresh": run})).await;
    let browser = Browser::new(&server);
    for first in ["/runs/r1", "/runs/r2"] {
        let page = browser.page(first).await;
        assert!(!page.contains("Compared with"), "{first}: {page}");
    }
    let page = browser.page("/runs/r3").await;
    assert!(
        page.contains("Compared with <a href=\"/runs/r1\">"),
        "{page}"
    );
    for row in [
        "<td class=\"name\">both</td>",
        "fresh <span class=\"faint\">new</span>",
        "old <span class=\"faint\">removed</span>",
    ] {
        assert!(page.contains(row), "{row}: {page}");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_states_of_items_and_the_use_of_workers_are_drawn() {
    let dir = tempfile::tempdir().expect("a place");
    let server = Server::start(config(dir.path())).await;
    let huge = json!({"cpu": 1000});
    let tasks = json!({"each": {"run": "true", "for_each": [1, 2], "resources": huge}});
    let body = json!({"file": {"workflow": "w", "tasks": tasks}});
    let sent = server.send(Method::POST, "/runs/", &body).await;
    assert!(sent.status.is_success(), "{sent:?}");
    let browser = Browser::new(&server);
    let run = browser.page("/runs/r1").await;
    let cell = "<a class=\"cell s-QUEUED\" href=\"/instances/i2\" title=\"each[1] QUEUED\"";
    assert!(run.contains(cell), "{run}");
    let first = browser.page("/runs/r1/items/?limit=1").await;
    assert!(first.contains("href=\"/instances/i1\"") && !first.contains(cell));
    let next = "<a rel=\"next\" href=\"";
    let start = first.find(next).expect("a second page") + next.len();
    let end = first[start..].find('"').expect("closed");
    let next = first[start..start + end].replace("&#38;", "&");
    let second = browser.page(&next).await;
    assert!(second.contains("href=\"/instances/i2\""), "{second}");
    assert!(!second.contains("rel=\"next\""), "{second}");
    let worker = server.worker("w1").await;
    let joined = async || browser.page("/workers/").await.contains("HEALTHY");
    assert!(until(joined).await);
    let list = browser.page("/workers/").await;
    let page = browser.page("/workers/w1").await;
    for of in ["Cores", "Memory"] {
        let bar = format!("value=\"0\" aria-label=\"{of} of w1, claimed\"></meter> 0");
        assert!(list.contains(&bar), "{bar}: {list}");
        let bar = format!("value=\"0\" aria-label=\"{of}, claimed\"></meter> 0");
        assert!(page.contains(&bar), "{bar}: {page}");
    }
    drop(worker);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_page_of_events_begins_with_the_latest_and_limits_their_rate() {
    let dir = tempfile::tempdir().expect("a place");
    let server = Server::start(config(dir.path())).await;
    for number in 0..50 {
        server.submit(&format!("t{number}")).await;
    }
    let browser = Browser::new(&server);
    let page = browser.page("/events").await;
    // The event of the lease time, and those of the submissions.
    assert!(
        page.contains("data-query=\"?rate=40&#38;after=11\""),
        "{page}"
    );
    let page = browser.page("/events?owner=ann&rate=5&after=7").await;
    let query = "data-query=\"?owner=ann&#38;rate=5&#38;after=7\"";
    assert!(page.contains(query), "{page}");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_shows_how_it_was_since_the_server_started() {
    let dir = tempfile::tempdir().expect("a place");
    let server = Server::start(config(dir.path())).await;
    let worker = server.worker("w1").await;
    let browser = Browser::new(&server);
    let shows = async |text: &str| {
        let page = browser.get("/workers/w1").await.text().await;
        page.expect("a page").contains(text)
    };
    assert!(until(async || shows("HEALTHY</span></li>").await).await);
    let drained = json!({"drained": true});
    let drain = "/workers/w1/drained";
    let sent = server.send(Method::PUT, drain, &drained).await;
    assert!(sent.status.is_success(), "{sent:?}");
    assert!(until(async || shows("<span>drained</span>").await).await);
    drop(worker);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_form_acts_only_with_the_token_of_a_page_of_this_server() {
    let dir = tempfile::tempdir().expect("a place");
    let server = Server::start(config(dir.path())).await;
    let path = server.submit("waits").await;
    let browser = Browser::new(&server);
    let page = browser.page(&path).await;
    let target = format!("DELETE {path}");
    for csrf in ["", "0", &"0".repeat(64)] {
        let refused = browser
            .submit("/-/act", &[("csrf", csrf), ("target", &target)])
            .await;
        assert_eq!(refused.status(), StatusCode::FORBIDDEN);
    }
    let csrf = form_token(&page);
    for target in ["GET /", "POST //evil.example/", "DELETE", ""] {
        let refused = browser
            .submit("/-/act", &[("csrf", csrf), ("target", target)])
            .await;
        assert_eq!(refused.status(), StatusCode::BAD_REQUEST, "{target}");
    }
    assert_eq!(server.get(&path).await.body["state"], "QUEUED");
    let form = [
        ("csrf", csrf),
        ("target", &target),
        ("back", "//evil.example"),
    ];
    let foreign = browser
        .http
        .post(server.url("/-/act"))
        .header("origin", "http://evil.example");
    let foreign = foreign.header("content-type", "application/x-www-form-urlencoded");
    let foreign = foreign.body(format!("csrf={csrf}&target={}", encoded(&target)));
    assert_eq!(browser.send(foreign).await.status(), StatusCode::FORBIDDEN);
    let done = browser.submit("/-/act", &form).await;
    assert_eq!(done.status(), StatusCode::SEE_OTHER);
    assert_eq!(text(&done, "location"), "/", "never to another server");
    server.until_state(&path, "HALTED").await;
    // Selected rows, and one of them cannot be retried.
    let waiting = server.submit("waits").await;
    let rows = [
        ("csrf", csrf),
        ("selected", "retry"),
        ("id", &*path),
        ("id", &*waiting),
    ];
    let some = browser.submit("/-/act", &rows).await;
    assert_eq!(some.status(), StatusCode::CONFLICT);
    let shown = some.text().await.expect("a page");
    assert!(shown.contains("1 of 2 rows"), "{shown}");
    server.until_state(&path, "QUEUED").await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_is_a_token_in_a_cookie_that_the_api_does_not_take() {
    let dir = tempfile::tempdir().expect("a place");
    let data = dir.path();
    let [(_, viewer), (_, operator)] = tokens(data, [Role::Viewer, Role::Operator]);
    let server = Server::start(demanding(config(data))).await;
    let mut browser = Browser::new(&server);
    let asked = browser.get("/arena/?name=x").await;
    assert_eq!(asked.status(), StatusCode::UNAUTHORIZED);
    let form = asked.text().await.expect("a page");
    assert!(
        form.contains("action=\"/-/sign-in\"") && form.contains("/arena?name=x"),
        "{form}"
    );
    assert_eq!(
        browser.get("/-/changes").await.status(),
        StatusCode::UNAUTHORIZED
    );
    for wrong in [
        "",
        "nonsense",
        token::generate().expect("random bits").expose(),
    ] {
        let refused = browser.submit("/-/sign-in", &[("token", wrong)]).await;
        assert_eq!(refused.status(), StatusCode::UNAUTHORIZED, "{wrong}");
        assert!(refused.headers().get("set-cookie").is_none());
    }
    for (secret, operates) in [(&viewer, false), (&operator, true)] {
        let fields = [("token", secret.expose()), ("back", "/arena/")];
        let signed_in = browser.submit("/-/sign-in", &fields).await;
        assert_eq!(signed_in.status(), StatusCode::SEE_OTHER);
        assert_eq!(text(&signed_in, "location"), "/arena/");
        let cookie = text(&signed_in, "set-cookie");
        assert!(
            cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict"),
            "{cookie}"
        );
        browser.cookie = cookie.split(';').next().map(str::to_owned);
        let page = browser.page("/workers/").await;
        assert!(page.contains("Sign out"));
        let list = browser.page("/bullpen/").await;
        assert!(list.contains("No") || list.contains("Nothing"), "{list}");
        // The API does not take the cookie for a change.
        let change = browser.http.post(server.url("/instances/"));
        let change = change.header("content-type", "application/json");
        let change = change.body(json!({"file": {"task": "t", "run": "true"}}).to_string());
        assert_eq!(
            browser.send(change).await.status(),
            StatusCode::UNAUTHORIZED
        );
        // A form is authorized as the token is.
        let csrf = form_token(&page).to_owned();
        let target = "PUT /workers/none/drained";
        let body = "{\"drained\":true}";
        let fields = [("csrf", &*csrf), ("target", target), ("body", body)];
        let refused = browser.submit("/-/act", &fields).await;
        let expected = if operates {
            StatusCode::NOT_FOUND
        } else {
            StatusCode::FORBIDDEN
        };
        assert_eq!(refused.status(), expected);
    }
    let page = browser.page("/").await;
    let out = browser
        .submit("/-/sign-out", &[("csrf", form_token(&page))])
        .await;
    assert!(text(&out, "set-cookie").contains("Max-Age=0"));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_open_page_hears_of_a_change_and_shows_it() {
    let dir = tempfile::tempdir().expect("a place");
    let server = Server::start(config(dir.path())).await;
    let browser = Browser::new(&server);
    let mut stream = browser.get("/-/changes").await;
    assert_eq!(text(&stream, "content-type"), "text/event-stream");
    for name in ["first", "second"] {
        server.submit(name).await;
        // An earlier change may still be told.
        let shown = until(async || {
            let change = change(&mut stream).await;
            let page = browser.reload("/bullpen/", &change, None).await;
            page.text().await.expect("a page").contains(name)
        });
        assert!(shown.await, "{name} is missing");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_of_one_change_are_rendered_once_for_each_viewer() {
    let dir = tempfile::tempdir().expect("a place");
    let data = dir.path();
    let roles = [Role::Operator, Role::Viewer, Role::Admin];
    let [(_, operator), (gone, viewer), (_, admin)] = tokens(data, roles);
    let server = Server::start(demanding(config(data))).await;
    let mut browser = Browser::new(&server);
    let cookie = |response: &Response| {
        let cookie = text(response, "set-cookie");
        cookie.split(';').next().map(str::to_owned)
    };
    let mut sessions = Vec::new();
    for secret in [&operator, &viewer] {
        let fields = [("token", secret.expose())];
        sessions.push(cookie(&browser.submit("/-/sign-in", &fields).await));
    }
    browser.cookie.clone_from(&sessions[0]);
    let mut stream = browser.get("/-/changes").await;
    let request = server.request(Method::POST, "/instances/");
    let request = request.bearer_auth(admin.expose());
    assert_eq!(
        got(request.json(&task("waits"))).await.status,
        StatusCode::CREATED
    );
    let mut change = change(&mut stream).await;
    // The first one may have begun before the submission.
    while !browser
        .reload("/bullpen/", &change, None)
        .await
        .text()
        .await
        .expect("a page")
        .contains("waits")
    {
        change = self::change(&mut stream).await;
    }
    let asked = async || {
        let request = server.request(Method::GET, "/metrics");
        let shown = request.bearer_auth(admin.expose()).send().await;
        let shown = shown.expect("an answer").text().await.expect("text");
        let mut lines = shown.lines();
        let line = lines.find(|line| line.contains("requests_total") && line.contains("/bullpen/"));
        line.map_or_else(String::new, str::to_owned)
    };
    // Another change may come between, after which the page may say other times; without sharing
    // each load asks again.
    let (mut first, mut tag) = (String::new(), String::new());
    let shared = until(async || {
        let page = browser.reload("/bullpen/", &change, None).await;
        tag = text(&page, "etag").to_owned();
        first = page.text().await.expect("a page");
        let rendered = asked().await;
        let known = browser.reload("/bullpen/", &change, Some(&tag)).await;
        let again = browser.reload("/bullpen/", &change, None).await;
        known.status() == StatusCode::NOT_MODIFIED
            && again.text().await.expect("a page") == first
            && !rendered.is_empty()
            && asked().await == rendered
    });
    assert!(shared.await, "every load asks for the list");
    assert!(first.contains("name=\"csrf\""), "{first}");
    // Another viewer gets its own, and no tag of another one matches it.
    browser.cookie.clone_from(&sessions[1]);
    let other = browser.reload("/bullpen/", &change, Some(&tag)).await;
    assert_eq!(other.status(), StatusCode::OK);
    let other_tag = text(&other, "etag");
    let other = other.text().await.expect("a page");
    assert!(!other.contains(form_token(&first)), "{other}");
    assert!(!other.contains("selected"), "a viewer cannot act: {other}");
    // What a token could read, it reads no more when it is revoked.
    let revoke = server.request(Method::DELETE, &format!("/tokens/{gone}"));
    let revoked = got(revoke.bearer_auth(admin.expose())).await;
    assert!(revoked.status.is_success(), "{revoked:?}");
    let refused = browser
        .reload("/bullpen/", &change, Some(&other_tag))
        .await
        .status();
    assert_eq!(refused, StatusCode::UNAUTHORIZED);
    server.stop().await;
}

/// The next change of which a stream tells.
async fn change(stream: &mut Response) -> String {
    let mut heard = String::new();
    let told = until(async || {
        if let Ok(Some(piece)) = stream.chunk().await {
            heard.push_str(&String::from_utf8_lossy(&piece));
        }
        heard.contains("data: ")
    });
    assert!(told.await, "{heard}");
    let change = heard.lines().find_map(|line| line.strip_prefix("data: "));
    change.expect("just heard").to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_follower_serves_the_pages_and_its_forms_act_through_the_leader() {
    let shared = Shared::new();
    let (_, operator) = made(&*shared.open(), Role::Operator);
    let mut members = Vec::new();
    for name in ["a", "b", "c"] {
        members.push(Member::join_with(&shared, name, demanding).await);
        // The first one leads, the others follow it.
        let role = if name == "a" { "leader" } else { "follower" };
        let joined = members.last().expect("just joined");
        assert!(until(async || joined.role().await == role).await);
    }
    let [leader, follower, other] = [0, 1, 2].map(|index| &members[index].server);
    let mut browser = Browser::new(follower);
    let fields = [("token", operator.expose()), ("back", "/bullpen/")];
    let signed_in = browser.submit("/-/sign-in", &fields).await;
    assert_eq!(signed_in.status(), StatusCode::SEE_OTHER);
    let cookie = text(&signed_in, "set-cookie");
    browser.cookie = cookie.split(';').next().map(str::to_owned);
    // It is answered by the leader.
    let known = async || browser.get("/workers/").await.status() == StatusCode::OK;
    assert!(until(known).await, "the leader does not answer");
    let submit = async |name: &str| {
        let request = leader.request(Method::POST, "/instances/");
        let request = request.bearer_auth(operator.expose());
        let sent = got(request.json(&task(name))).await;
        assert_eq!(sent.status, StatusCode::CREATED, "{sent:?}");
        sent.headers["location"]
            .to_str()
            .expect("a path")
            .to_owned()
    };
    let halted = async |path: &str| {
        let request = leader.request(Method::GET, &format!("{path}?wait=30"));
        let shown = got(request.bearer_auth(operator.expose())).await;
        assert_eq!(shown.body["state"], "HALTED", "{shown:?}");
    };
    let path = submit("waits").await;
    let page = browser.page(&path).await;
    let target = format!("DELETE {path}");
    assert!(page.contains(&target), "{page}");
    let csrf = form_token(&page).to_owned();
    let form = [("csrf", &*csrf), ("target", &target), ("back", &path)];
    let done = browser.submit("/-/act", &form).await;
    assert_eq!(done.status(), StatusCode::SEE_OTHER);
    assert_eq!(text(&done, "location"), path);
    halted(&path).await;
    // Behind a load balancer, a form may arrive at another scheduler than its page came from.
    let path = submit("waits-too").await;
    let port = other.url("").rsplit(':').next().map(str::to_owned);
    let elsewhere = Browser {
        cookie: port.map(|port| format!("baton-{port}={}", operator.expose())),
        ..Browser::new(other)
    };
    let target = format!("DELETE {path}");
    let form = [("csrf", &*csrf), ("target", &target), ("back", &path)];
    let done = elsewhere.submit("/-/act", &form).await;
    assert_eq!(done.status(), StatusCode::SEE_OTHER);
    halted(&path).await;
    for browser in [&browser, &elsewhere] {
        let page = browser.page("/schedulers/").await;
        assert!(page.contains("2 followers can take over"), "{page}");
        let page = browser.page("/").await;
        assert!(page.contains(" leads, epoch "), "{page}");
    }
    for member in members {
        member.server.stop().await;
    }
}

/// The configuration of a server that requires tokens.
pub(crate) fn demanding(config: Config) -> Config {
    Config {
        require_tokens: true,
        ..config
    }
}

/// Tokens of these roles, in the store of a server that does not run yet.
pub(crate) fn tokens<const N: usize>(data: &Path, roles: [Role; N]) -> [(TokenId, Secret); N] {
    let store = SqliteStore::open(&data.join(STORE_FILE)).expect("the store opens");
    roles.map(|role| made(&store, role))
}

fn made(store: &dyn Store, role: Role) -> (TokenId, Secret) {
    let secret = token::generate().expect("random bits");
    let new = NewToken {
        name: role.to_string(),
        role,
        owner: None,
        fleet: None,
        hash: token::hash(&secret),
        created_at: Wall(1),
        expires_at: None,
    };
    (store.create_token(&new).expect("kept"), secret)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refused_launch_keeps_what_was_typed_and_tells_the_error_at_its_field() {
    let dir = tempfile::tempdir().expect("a place");
    let server = Server::start(config(dir.path())).await;
    let params = json!({"n": {"type": "int", "min": 1, "max": 10, "default": 3}, "note": "<none>"});
    let entry = json!({"task": "daily", "owner": "ann", "run": "true", "params": params});
    let stored = server.send(Method::POST, "/ann/tasks/", &entry).await;
    assert!(stored.status.is_success(), "{stored:?}");
    let browser = Browser::new(&server);
    let page = browser.page("/ann/tasks/daily").await;
    let field = "<input type=\"number\" id=\"p-n\" name=\"param.n\" value=\"3\" min=\"1\" max=\"10\" step=\"1\" required aria-describedby=\"hint-n\">";
    assert!(page.contains(field), "{page}");
    let fields = |n| {
        [
            ("csrf", form_token(&page)),
            ("target", "POST /ann/tasks/daily/run"),
            ("form", "launch"),
            ("back", "/ann/tasks/daily"),
            ("default.n", "3"),
            ("param.n", n),
            ("default.note", "<none>"),
            ("param.note", "<b>typed"),
        ]
    };
    let refused = browser.submit("/-/act", &fields("11")).await;
    assert_eq!(refused.status(), StatusCode::UNPROCESSABLE_ENTITY);
    let page = refused.text().await.expect("a page");
    assert!(page.contains("data-refresh=\"never\""), "{page}");
    assert!(
        page.contains("value=\"11\"") && page.contains("aria-invalid=\"true\""),
        "{page}"
    );
    assert!(
        page.contains("id=\"error-n\">`11` is more than 10"),
        "{page}"
    );
    assert!(page.contains("value=\"&#60;b&#62;typed\""), "{page}");
    assert!(
        page.contains("name=\"back\" value=\"/ann/tasks/daily\""),
        "{page}"
    );
    let launched = browser.submit("/-/act", &fields("10")).await;
    assert_eq!(launched.status(), StatusCode::SEE_OTHER);
    assert_eq!(text(&launched, "location"), "/instances/i1");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operation_that_creates_nothing_returns_to_its_page() {
    let dir = tempfile::tempdir().expect("a place");
    let server = Server::start(config(dir.path())).await;
    let entry = json!({"task": "daily", "owner": "ann", "run": "true", "trigger": {"schedule": "every day at 9:00"}});
    let stored = server.send(Method::POST, "/ann/tasks/", &entry).await;
    assert!(stored.status.is_success(), "{stored:?}");
    let browser = Browser::new(&server);
    let page = browser.page("/ann/tasks/daily").await;
    let pause = [
        ("csrf", form_token(&page)),
        ("target", "PUT /ann/tasks/daily/paused"),
        ("body", "{\"paused\":true}"),
        ("back", "/ann/tasks/daily"),
    ];
    let paused = browser.submit("/-/act", &pause).await;
    assert_eq!(paused.status(), StatusCode::SEE_OTHER);
    // The entry has a link for backfills, which is an operation and no page.
    assert_eq!(text(&paused, "location"), "/ann/tasks/daily");
    assert!(browser.page("/ann/tasks/daily").await.contains("PAUSED"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_entry_that_failed_long_ago_is_failing_until_it_succeeds() {
    let dir = tempfile::tempdir().expect("a place");
    let server = Server::start(config(dir.path())).await;
    let _worker = server.worker("w1").await;
    let entry = json!({"task": "fail", "owner": "ann", "run": "true", "trigger": {"remote": true}});
    server.send(Method::POST, "/ann/tasks/", &entry).await;
    for id in ["/instances/i1", "/instances/i2"] {
        server.post("/ann/tasks/fail/trigger").await;
        server.until_state(id, "FAILED").await;
    }
    // More others have ended since than one page looks at. Neighbours would be one record.
    let ended: Vec<String> = (0..PAGE_SCAN_MAX + 10)
        .map(|number| format!("i{}", 3 + 2 * number))
        .collect();
    let others = json!({
        "file": {"task": "many", "run": "true", "resources": {"cpu": 4_000}},
        "array": {"from": 1, "to": 2 * ended.len()},
    });
    server.send(Method::POST, "/instances/", &others).await;
    for some in ended.chunks(TARGET_RANGES_MAX) {
        let path = format!("/instances/{}", some.join(","));
        assert!(server.delete(&path).await.status.is_success());
    }
    let history = server.get("/history/?owner=ann&name=fail").await.body;
    assert_eq!(history["items"], json!([]), "it is too far away");
    let page = Browser::new(&server).page("/").await;
    assert!(page.contains("failed 2 times in a row: exit 3"), "{page}");
    server.stop().await;
}
