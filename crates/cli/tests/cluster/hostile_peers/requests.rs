//! Hostile input on the client port.

use baton_testing::Rng;

fn request(head: &str, body: &[u8]) -> Vec<u8> {
    let mut bytes = format!("{head}\r\nhost: 127.0.0.1\r\n").into_bytes();
    bytes.extend(format!("content-length: {}\r\n\r\n", body.len()).bytes());
    bytes.extend(body);
    bytes
}

/// Hand-written invalid requests.
pub(crate) fn bad_requests() -> Vec<Vec<u8>> {
    let submit = |body: &str| request("POST /instances/ HTTP/1.1", body.as_bytes());
    let array = |indices: &str| {
        let file = r#"{"task":"x","run":"true"}"#;
        submit(&format!(r#"{{"file":{file},"array":{indices}}}"#))
    };
    let odd = |headers: &str, body: &str| {
        let head = "POST /instances/ HTTP/1.1\r\nhost: 127.0.0.1";
        format!("{head}\r\n{headers}\r\n\r\n{body}").into_bytes()
    };
    let long = "x".repeat(1 << 20);
    let deep = "[".repeat(200_000);
    let deep_task = format!(
        "{{\"file\":{{\"task\":\"x\",\"run\":{}1{}}}}}",
        "[".repeat(100),
        "]".repeat(100)
    );
    let many = format!("{{\"file\":[{}1]}}", "1,".repeat(500_000));
    vec![
        submit(""),
        submit("{"),
        submit("null"),
        submit(&deep),
        submit(&deep.replace('[', "{\"file\":")),
        submit(&deep_task),
        submit(&many),
        array(r#"{"from":0,"to":18446744073709551615}"#),
        array(r#"{"from":9,"to":1}"#),
        submit(r#"{"file":{"task":"x","run":"true","resources":{"cpu":1e308}}}"#),
        submit(r#"{"file":{"task":"\ud800","run":"true"}}"#),
        request("POST /instances/ HTTP/1.1", &[0xff; 1_000]),
        request("POST /instances/ HTTP/1.1", &vec![b' '; 9 << 20]),
        request("GET /instances/i99999999999999999999999 HTTP/1.1", b""),
        request("GET /instances/i1..i18446744073709551615 HTTP/1.1", b""),
        request(
            "GET /instances/i18446744073709551615/timeline HTTP/1.1",
            b"",
        ),
        request("DELETE /instances/i5..i1 HTTP/1.1", b""),
        request(
            "GET /history/?limit=99999999999&cursor=%00%ff HTTP/1.1",
            b"",
        ),
        request("GET /instances/i1?wait=1e999 HTTP/1.1", b""),
        request("GET /%2e%2e/%2e%2e/etc/passwd HTTP/1.1", b""),
        request("PUT /workers/%00/drained HTTP/1.1", b"{\"drained\":7}"),
        request(&format!("GET /{long} HTTP/1.1"), b""),
        request("GET / HTTP/9.9", b""),
        odd(&format!("x: {long}"), ""),
        odd(&"a: b\r\n".repeat(10_000), ""),
        odd("content-length: -1", "{}"),
        odd("content-length: 99999999999999999999", "{}"),
        odd("content-length: 2\r\ncontent-length: 3", "{}}"),
        odd("content-length: 1", "{\"file\":1}"),
        odd("content-length: 1000", "{\"file\""),
        odd("transfer-encoding: chunked", "ffffffffffffffffff\r\n"),
    ]
}

/// A request whose parts are random.
pub(crate) fn random_request(rng: &mut Rng) -> Vec<u8> {
    const METHODS: [&str; 7] = ["GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "XYZZY"];
    const PATHS: [&str; 9] = [
        "/",
        "/instances/",
        "/instances/i1",
        "/instances/i1..i3",
        "/instances/i1/retry",
        "/instances/i1/logs/stdout",
        "/history/?limit=3",
        "/workers/missing/drained",
        "/readyz",
    ];
    let pick = |rng: &mut Rng, all: &[&'static str]| {
        all[usize::try_from(rng.below(all.len() as u64)).expect("small")]
    };
    let some = usize::try_from(rng.below(500)).expect("small");
    if rng.below(8) == 0 {
        return rng.bytes(some);
    }
    let (method, path) = (pick(rng, &METHODS), pick(rng, &PATHS));
    let mut bytes = request(&format!("{method} {path} HTTP/1.1"), &rng.bytes(some));
    match rng.below(3) {
        0 => {
            let at = rng.below(bytes.len() as u64);
            bytes[usize::try_from(at).expect("small")] = rng.bytes(1)[0];
        }
        1 => {
            let left = rng.below(bytes.len() as u64);
            bytes.truncate(usize::try_from(left).expect("small"));
        }
        _ => {}
    }
    bytes
}
