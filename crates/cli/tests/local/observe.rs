//! `baton local observe`: pages of real tasks, over real sockets.

use std::fs;
use std::io::{BufRead, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::{chown, symlink};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use baton_testing::command::end;
use baton_testing::until;
use rustix::process::Signal;

use crate::test_root::{Task, TestRoot, spec, task_id};

/// An observer, and the cookie of its reader.
struct Observer {
    child: Child,
    host: String,
    /// `/?key=…`
    entrance: String,
    cookie: String,
}

/// A runner that ends with its test.
struct Runner(Child);

impl Drop for Runner {
    fn drop(&mut self) {
        end(&mut self.0, Signal::TERM);
    }
}

/// A response, as it arrived.
#[derive(Debug)]
struct Answer {
    status: u16,
    head: String,
    body: String,
}

impl Observer {
    fn start(mut command: Command) -> Self {
        command.stdout(Stdio::piped());
        let mut child = command.spawn().expect("it starts");
        let mut line = String::new();
        let out = child.stdout.take().expect("piped");
        BufReader::new(out).read_line(&mut line).expect("a line");
        let url = line
            .trim_end()
            .strip_prefix("baton observer ready: http://");
        let (host, query) = url.expect("an address").split_once('/').expect("a path");
        let mut observer = Self {
            child,
            host: host.to_owned(),
            entrance: format!("/{query}"),
            cookie: String::new(),
        };
        let opened = observer.get(&observer.entrance);
        assert_eq!(opened.status, 303, "{opened:?}");
        assert_eq!(opened.header("location"), "/");
        let cookie = opened.header("set-cookie");
        assert!(
            cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict"),
            "{cookie}"
        );
        let pair = cookie.split(';').next().expect("a pair");
        observer.cookie = pair.to_owned();
        observer
    }

    fn of(world: &TestRoot) -> Self {
        Self::start(world.command(&["observe", "--port", "0"]))
    }

    fn get(&self, path: &str) -> Answer {
        self.send("GET", path, &self.host, &self.cookie)
    }

    /// The same address in JSON, for a program that sends the key itself.
    fn json(&self, path: &str) -> (u16, serde_json::Value) {
        let key = self.entrance.strip_prefix("/?key=").expect("a key");
        let fields = format!("authorization: Bearer {key}\r\naccept: application/json");
        let answer = self.request("GET", path, &self.host, &fields);
        assert_eq!(answer.header("content-type"), "application/json");
        let value = serde_json::from_str(&answer.body).expect("JSON");
        (answer.status, value)
    }

    /// The page of an address.
    fn page(&self, path: &str) -> String {
        let answer = self.get(path);
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
        let policy = answer.header("content-security-policy");
        assert!(policy.contains("script-src 'self'"), "{policy}");
        answer.body
    }

    /// The address of the page of a task, from the list.
    fn address(&self, id: &str) -> String {
        let list = self.page("/");
        let end = format!("/{id}\">");
        let at = list.find(&end).unwrap_or_else(|| panic!("{id}: {list}"));
        let begin = list[..at].rfind("href=\"").expect("a link") + "href=\"".len();
        format!("{}/{id}", &list[begin..at])
    }

    fn send(&self, method: &str, path: &str, host: &str, cookie: &str) -> Answer {
        self.request(method, path, host, &format!("cookie: {cookie}"))
    }

    fn request(&self, method: &str, path: &str, host: &str, fields: &str) -> Answer {
        let mut stream = TcpStream::connect(&self.host).expect("it listens");
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: {host}\r\n{fields}\r\nconnection: close\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).expect("written");
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).expect("an answer");
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let (head, body) = text.split_once("\r\n\r\n").expect("a head");
        let status = head.split(' ').nth(1).and_then(|it| it.parse().ok());
        Answer {
            status: status.expect("a status"),
            head: head.to_owned(),
            body: body.to_owned(),
        }
    }
}

impl Drop for Observer {
    fn drop(&mut self) {
        end(&mut self.child, Signal::INT);
    }
}

impl Answer {
    fn header(&self, name: &str) -> &str {
        let mut lines = self.head.lines();
        let line = lines.find_map(|line| line.strip_prefix(&format!("{name}: ")));
        line.unwrap_or_default()
    }
}

const HOSTILE: &str = "\
task: '<b>hostile&'
processes:
- name: print
  env: { PASSWORD: in-clear }
  run: |
    printf '\\033[31m<script>alert(1)</script>\\033[0m\\n'
    echo '<img src=x onerror=alert(1)>' >&2
- { name: grow, run: 'i=0; until [ -e release ]; do i=$((i+1)); echo line $i; sleep 0.1; done' }
- { name: last, run: 'true', after: [grow] }
";

#[test]
fn the_tasks_of_a_host_are_pages_that_grow_while_they_run() {
    let world = TestRoot::new();
    let file = world.file("t.yaml", HOSTILE);
    let file = file.to_str().expect("text");
    let mut run = world.command(&["run", file, "--task-id", "odd"]);
    let mut run = Runner(run.stdout(Stdio::null()).spawn().expect("starts"));
    let simple = world.file("s.yaml", "task: s\nrun: echo single\n");
    let simple = simple.to_str().expect("text");
    assert_eq!(world.baton(&["run", simple, "--task-id", "single"]).code, 0);
    let observer = Observer::of(&world);
    let odd = observer.address("odd");
    until("its output is there", || {
        observer
            .page(&odd)
            .contains("waits until grow has succeeded")
    });

    let list = observer.page("/");
    assert!(
        list.contains("ACTIVE") && list.contains("SUCCESS"),
        "{list}"
    );
    assert!(list.contains("data-refresh=\"timer\""), "{list}");
    let only = observer.page("/?phase=finished&q=s*");
    assert!(
        only.contains("single") && !only.contains("/odd\""),
        "{only}"
    );
    assert!(observer.page("/?q=nothing").contains("No task matches"));

    let task = observer.page(&odd);
    assert!(task.contains("&lt;b&gt;hostile&amp;"), "{task}");
    assert!(
        !task.contains("<b>hostile") && !task.contains("in-clear"),
        "{task}"
    );
    assert!(task.contains("PASSWORD"), "{task}");
    let print = observer.page(&format!("{odd}/processes/print"));
    assert!(
        print.contains("<span class=\"f1\">&lt;script&gt;alert(1)&lt;/script&gt;"),
        "{print}"
    );
    assert!(
        print.contains("&lt;img src=x") && !print.contains("<img"),
        "{print}"
    );
    let grow = format!("{odd}/processes/grow");
    let lines = || observer.page(&grow).matches("\nline ").count();
    let before = lines();
    until("its output grows", || lines() > before);
    let log = observer.get(&format!("{grow}/0/stdout"));
    assert!(log.body.contains("line 1\nline 2\n"), "{log:?}");
    assert!(log.header("content-disposition").starts_with("attachment"));
    assert_eq!(log.header("x-content-type-options"), "nosniff");

    let single = observer.page(&observer.address("single"));
    assert!(single.contains("single\n</pre>"), "{single}");
    fs::write(world.root.sandbox(&task_id("odd")).join("release"), "").expect("written");
    run.0.wait().expect("it ends");
    assert!(observer.page(&odd).contains("s-SUCCESS"));
}

#[test]
fn the_same_addresses_answer_json() {
    let world = TestRoot::new();
    Task::begin(&world, "own", spec()).succeeds(&world);
    let observer = Observer::of(&world);
    let (status, list) = observer.json("/?q=own");
    assert_eq!((status, &list["total"]), (200, &1.into()), "{list}");
    let href = list["tasks"][0]["href"].as_str().expect("an address");
    assert_eq!(href, observer.address("own"));
    let (_, task) = observer.json(href);
    assert_eq!(task, list["tasks"][0]["task"]);
    let status = world.json(&["status", "own", "--json"]);
    assert_eq!(task["processes"], status[0]["processes"]);
    let name = task["processes"][0]["name"].as_str().expect("a name");
    let (_, process) = observer.json(&format!("{href}/processes/{name}"));
    assert_eq!(process, task["processes"][0]);
    let (status, missing) = observer.json(&format!("{href}/processes/none"));
    assert_eq!((status, &missing["status"]), (404, &404.into()));
    let fields = "accept: application/json";
    let refused = observer.request("GET", "/", &observer.host, fields);
    assert_eq!(refused.status, 401, "{refused:?}");
}

#[test]
fn only_the_reader_of_the_key_gets_pages_and_nothing_can_be_changed() {
    let world = TestRoot::new();
    Task::begin(&world, "own", spec()).succeeds(&world);
    let observer = Observer::of(&world);
    let (host, cookie) = (&*observer.host, &*observer.cookie);
    let status = |method: &str, path: &str, host: &str, cookie: &str| {
        observer.send(method, path, host, cookie).status
    };
    assert_eq!(status("GET", "/", host, cookie), 200);
    for wrong in ["", "a=b", &cookie[..cookie.len() - 1]] {
        assert_eq!(status("GET", "/", host, wrong), 401, "{wrong}");
    }
    assert_eq!(status("GET", "/?key=wrong", host, ""), 401);
    assert_eq!(status("GET", &observer.entrance, "evil.example", ""), 403);
    assert_eq!(status("GET", "/", "evil.example", cookie), 403);
    for method in ["POST", "PUT", "DELETE", "PATCH"] {
        assert_eq!(status(method, "/", host, cookie), 405, "{method}");
    }
    let own = observer.address("own");
    let root = own.split('/').nth(2).expect("a key").to_owned();
    for path in [
        "/tasks/x/own".to_owned(),
        format!("/tasks/{root}/..%2F..%2Fetc"),
        format!("/tasks/{root}/../../etc/passwd"),
        format!("{own}/processes/..%2F..%2F..%2Fsecret"),
        format!("{own}/processes/fetch/0/..%2Fstdout"),
        format!("{own}/processes/%2Fetc%2Fpasswd/0/stdout"),
        "/-/assets/..%2Fapp.css".to_owned(),
        "/etc/passwd".to_owned(),
    ] {
        assert_eq!(observer.get(&path).status, 404, "{path}");
    }
}

#[test]
fn several_roots_are_observed_and_no_link_leads_out_of_them() {
    let (world, other) = (TestRoot::new(), TestRoot::new());
    let secret = world.file("secret", "top secret\n");
    let file = world.file("t.yaml", "task: t\nrun: echo plain\n");
    let file = file.to_str().expect("text");
    for id in ["logged", "linked", "gone"] {
        assert_eq!(world.baton(&["run", file, "--task-id", id]).code, 0);
    }
    Task::begin(&other, "elsewhere", spec()).succeeds(&other);
    let logs = |id: &str| world.root.sandbox(&task_id(id)).join(".logs/t/0/stdout");
    fs::remove_file(logs("logged")).expect("removed");
    symlink(&secret, logs("logged")).expect("linked");
    // A checkpoint, and a task that only another root has.
    let moved = world.root.path().with_extension("moved");
    fs::rename(world.root.checkpoint(&task_id("gone")), &moved).expect("moved");
    symlink(&moved, world.root.checkpoint(&task_id("gone"))).expect("linked");
    // The directory of all logs.
    let dir = world.root.sandbox(&task_id("linked")).join(".logs");
    let moved = dir.with_extension("moved");
    fs::rename(&dir, &moved).expect("moved");
    symlink(&moved, &dir).expect("linked");

    let mut command = world.command(&["observe", "--port", "0", "--root"]);
    command
        .arg(world.root.path())
        .arg("--root")
        .arg(other.root.path());
    let observer = Observer::start(command);
    let logged = observer.address("logged");
    let page = observer.page(&logged);
    assert!(!page.contains("top secret"), "{page}");
    let log = observer.get(&format!("{logged}/processes/t/0/stdout"));
    assert_eq!(log.status, 404, "{log:?}");
    let linked = observer.page(&observer.address("linked"));
    assert!(!linked.contains("plain\n</pre>"), "{linked}");
    let gone = observer.get(&observer.address("gone"));
    assert_eq!(gone.status, 404, "{gone:?}");
    assert!(observer.page("/").contains("UNREADABLE"));
    let elsewhere = observer.address("elsewhere");
    assert!(observer.page(&elsewhere).contains("SUCCESS"));
    let key = logged.split('/').nth(2).expect("a key");
    let mixed = format!("/tasks/{key}/elsewhere");
    assert_eq!(observer.get(&mixed).status, 404);

    let repeated = world
        .command(&["status", "--root"])
        .arg(other.root.path())
        .arg("--root")
        .arg("x")
        .output();
    let repeated = crate::test_root::command_output(repeated.expect("it ends"));
    assert_eq!(repeated.code, 2, "{repeated:?}");
    let missing = world.command(&["observe", "--root", "/no/such"]).output();
    let missing = crate::test_root::command_output(missing.expect("it ends"));
    assert!(
        missing.code == 2 && missing.err.contains("check --root"),
        "{missing:?}"
    );
}

#[test]
fn as_root_a_user_cannot_show_the_logs_of_another() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root reads directories of other users");
        return;
    }
    let world = TestRoot::new();
    let file = world.file("t.yaml", "task: t\nrun: echo of root\n");
    let file = file.to_str().expect("text");
    assert_eq!(world.baton(&["run", file, "--task-id", "a"]).code, 0);
    let observer = Observer::of(&world);
    let address = observer.address("a");
    assert!(observer.page(&address).contains("of root\n</pre>"));
    // The root is that of a user now, and its log still names a sandbox of root.
    let owner = |path: &Path, uid| chown(path, Some(uid), None).expect("changed");
    owner(world.root.path(), 12_345);
    assert!(!observer.page(&address).contains("of root\n</pre>"));
    let logs = world.root.sandbox(&task_id("a")).join(".logs");
    owner(&logs, 12_345);
    assert!(observer.page(&address).contains("of root\n</pre>"));
}
