//! `baton ui`: addresses of pages, and the browser that opens them.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use baton_testing::cluster::{Cluster, lines};
use baton_testing::command::{Ended, run};

/// A command without the desktop of the host.
fn without_desktop(mut command: Command) -> Command {
    for name in ["BROWSER", "DISPLAY", "WAYLAND_DISPLAY"] {
        command.env_remove(name);
    }
    command
}

#[test]
fn the_page_of_a_thing_is_opened_or_printed() {
    let cluster = Cluster::with_worker();
    let ui = |args: &[&str]| -> Command {
        let args: Vec<&str> = [&["ui"], args].concat();
        without_desktop(cluster.command(&args))
    };
    let end = |mut command: Command| -> Ended { command.output().expect("it ends").into() };
    cluster.run(&["submit", "--wait", "--", "true"]).good();
    let workflow = cluster.path("w.yaml");
    std::fs::write(&workflow, "workflow: w\ntasks: { a: { run: 'true' } }\n").expect("written");
    let workflow = workflow.to_str().expect("text");
    cluster.run(&["submit", "--wait", workflow]).good();
    cluster.run(&["library", "put", workflow]).good();
    let url = cluster.url();
    for (id, path) in [
        (&[][..], "/"),
        (&["i1"], "/instances/i1"),
        (&["1"], "/instances/i1"),
        (&["i1..i2"], "/instances/i1..i2"),
        (&["r1"], "/runs/r1"),
        (&["default/w"], "/default/tasks/w"),
        (&["w"], "/default/tasks/w"),
        (&["w1"], "/workers/w1"),
    ] {
        let printed = end(ui(&[id, &["--print"]].concat())).good();
        assert_eq!(printed, format!("{url}{path}\n"));
    }

    // Without a display the address is printed, and the reason on the other stream.
    let printed = end(ui(&["r1", "--json"]));
    assert!(printed.err.contains("there is no display"), "{printed:?}");
    let printed = printed.json();
    assert_eq!(printed["url"], format!("{url}/runs/r1"));
    assert_eq!(printed["opened"], false);

    // A browser of the environment gets the address; one that cannot start is left out.
    let (browser, opened) = (cluster.path("browser"), cluster.path("opened"));
    let script = format!("#!/bin/sh\nprintf '%s\\n' \"$*\" >>{}\n", opened.display());
    std::fs::write(&browser, script).expect("written");
    let executable = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(&browser, executable).expect("changed");
    let mut with_browser = ui(&["i1", "--json"]);
    with_browser.env("BROWSER", format!("/no/such:{} -n %s", browser.display()));
    assert_eq!(end(with_browser).json()["opened"], true);
    assert_eq!(lines(&opened), [format!("-n {url}/instances/i1")]);
    let mut failing = ui(&[]);
    failing.env("BROWSER", "false");
    let failing = end(failing);
    assert_eq!(failing.code, Some(1), "{failing:?}");
    assert!(failing.err.contains("set BROWSER"), "{failing:?}");

    for (id, text) in [
        ("i99", "i99"),
        ("r99", "r99"),
        ("b99", "b99"),
        ("other/x", "the library has no other/x; list it"),
        ("x\u{1b}[2J", "no worker, and no entry default/x\\u{1b}[2J"),
    ] {
        let refused = end(ui(&[id]));
        assert_eq!(refused.code, Some(1), "{refused:?}");
        assert!(refused.err.contains(text), "{refused:?}");
    }
    let usage = end(ui(&["a/b/c"]));
    assert_eq!(usage.code, Some(2), "{usage:?}");
}

#[test]
fn a_server_without_pages_is_named() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("bound"));
    let server = std::thread::spawn(move || {
        let (mut peer, _) = listener.accept().expect("a request");
        let mut request = [0; 4_096];
        let read = peer.read(&mut request).expect("readable");
        let answer = "HTTP/1.1 404 Not Found\r\ncontent-type: application/json\r\n\
                      content-length: 2\r\nconnection: close\r\n\r\n{}";
        peer.write_all(answer.as_bytes()).expect("written");
        String::from_utf8_lossy(&request[..read]).into_owned()
    });
    let dir = tempfile::tempdir().expect("a directory");
    let refused = run(dir.path(), &["--url", &url, "ui", "--print"]);
    assert!(server.join().expect("it ends").starts_with("GET /-/keys "));
    assert_eq!(refused.code, Some(3), "{refused:?}");
    assert!(
        refused.err.contains("serves no web pages; check --url"),
        "{refused:?}"
    );
}
