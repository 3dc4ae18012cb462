use std::io::{BufRead as _, BufReader, Seek as _};

use super::*;
use crate::control::policy::replace;

#[test] // proves: policy-swap, own-policy, http
fn put_policy_request_changes_one_class_or_all_classes() {
    let (view, inbox) = view();
    let worker = answer(inbox);
    let control = serve(&view);
    let put = |body: &str| {
        let url = format!("http://{}/policy", control.address().unwrap());
        let call = ureq::put(url).config().http_status_as_error(false).build().send(body);
        let mut response = call.unwrap();
        (response.status().as_u16(), response.body_mut().read_to_string().unwrap())
    };
    let (code, text) = put(r#"{"policy": "capfc-stop-max", "class": 3}"#);
    let names: policy_cells::PolicyNames = serde_json::from_str(&text).unwrap();
    assert_eq!((code, names[2].as_str(), names[3].as_str()), (200, "pfc", "capfc-stop-max"));
    assert_eq!(get(&control, "/policy"), (200, text));
    assert!(
        get(&control, "/metrics")
            .1
            .contains(r#"xoff_class_policy{switch="s1",class="3",policy="capfc-stop-max"} 1"#)
    );
    let (code, text) = put(r#"{"policy": "capfc-stop-calibrate"}"#);
    assert_eq!((code, text.matches("capfc-stop-calibrate").count()), (200, 8));
    for (body, expected) in [
        (r#"{"policy": "faster"}"#, "there is no policy \"faster\"; policies are pfc, capfc-stop-max"),
        (r#"{"policy": "custom"}"#, "this program has none: build a program with its own policy"),
        (r#"{"policy": "pfc", "class": 8}"#, "there is no class 8; classes are 0 to 7"),
        (r#"{"class": 3}"#, "and may have `class`; send for example {\"policy\""),
        (r#"{"policy": "pfc", "class": 300}"#, "; without `class`, the policy applies to all classes"),
        ("pfc", "send for example {\"policy\""),
    ] {
        let (code, text) = put(body);
        assert_eq!(code, 400, "{body}");
        assert!(text.contains(expected), "{text}");
    }
    assert_eq!(
        view.policies.get(CLASS_3),
        PolicyKind::CaPfcStopCalibrate,
        "refused request changed a policy"
    );
    stop_worker(&view, worker);
    let (code, text) = put(r#"{"policy": "pfc"}"#);
    assert_eq!((code, text.as_str()), (503, "worker 0 has ended\n"));
}

#[test]
fn replacing_a_policy_by_itself_logs_nothing() {
    let (view, inbox) = view();
    let worker = answer(inbox);
    let mut log = tempfile::tempfile().unwrap();
    let lines = tracing_subscriber::fmt().with_writer(log.try_clone().unwrap()).finish();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    tracing::subscriber::with_default(lines, || {
        for (kind, classes) in [(PolicyKind::GPfc, &[CLASS_3][..]), (PolicyKind::GPfc, &Class::ALL)] {
            runtime.block_on(replace(&view, classes, kind)).unwrap();
            runtime.block_on(replace(&view, classes, kind)).unwrap();
        }
    });
    let mut text = String::new();
    log.rewind().unwrap();
    log.read_to_string(&mut text).unwrap();
    assert_eq!(text.matches("changed: g-pfc instead of pfc").count(), CLASSES, "{text}");
    assert_eq!(text.lines().count(), CLASSES, "{text}");
    stop_worker(&view, worker);
}

fn put_under(control: &ControlHandle, host: &str, body: &str) -> (String, String) {
    let mut stream = TcpStream::connect(control.address().unwrap()).unwrap();
    let length = body.len();
    let head = format!("PUT /policy HTTP/1.1\r\nHost: {host}\r\nContent-Length: {length}\r\n");
    stream.write_all(format!("{head}Connection: close\r\n\r\n{body}").as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    (answer.lines().next().unwrap().to_owned(), answer)
}

#[test] // proves: policy-swap
fn put_policy_request_with_partial_or_too_long_body_is_refused() {
    let (view, _inbox) = view();
    let control = serve(&view);
    let answer = |head: &str, body: &[u8]| {
        let mut stream = TcpStream::connect(control.address().unwrap()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        stream
            .write_all(
                format!("PUT /policy HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{head}\r\n\r\n")
                    .as_bytes(),
            )
            .unwrap();
        let _ = stream.write_all(body); // may be refused
        let lines: Vec<String> = BufReader::new(stream).lines().map_while(Result::ok).collect();
        let code = lines.first().and_then(|line| line.split(' ').nth(1)).unwrap_or_default().to_owned();
        (code, lines.last().cloned().unwrap_or_default())
    };
    let code = |head: &str, body: &[u8]| answer(head, body).0;
    assert_eq!(code("Content-Length: 100", b"{"), "408");
    assert_eq!(code("Transfer-Encoding: chunked", b"1\r\n{\r\n"), "408");
    let body = |len: usize| format!("{{\"policy\": \"{}\"}}", "x".repeat(len - r#"{"policy": ""}"#.len()));
    assert_eq!(
        code("Content-Length: 1024", body(1024).as_bytes()),
        "400",
        "body of the maximum size is not read"
    );
    let (refused, message) = answer("Content-Length: 1025", body(1025).as_bytes());
    assert_eq!(refused, "413");
    assert!(message.starts_with("the request has more than 1024 bytes; send for example "), "{message}");
    let chunk = |len| format!("{len:x}\r\n{}\r\n0\r\n\r\n", body(len));
    assert_eq!(code("Transfer-Encoding: chunked", chunk(1024).as_bytes()), "400");
    assert_eq!(code("Transfer-Encoding: chunked", chunk(1025).as_bytes()), "413");
    assert_eq!(get(&control, "/healthz").0, 503, "other requests fail after refused ones");
}

#[test] // proves: policy-swap, http
fn web_page_with_rebound_name_cannot_change_a_policy() {
    let (view, inbox) = view();
    let worker = answer(inbox);
    let control = serve(&view);
    let body = r#"{"policy": "gfc", "class": 3}"#;
    let (code, text) = put_under(&control, "rebound.example:9464", body);
    assert_eq!(code, "HTTP/1.1 403 Forbidden");
    assert!(text.contains("this switch is not \"rebound.example:9464\"; use localhost"), "{text}");
    assert_eq!(view.policies.get(CLASS_3), PolicyKind::Pfc);
    for host in ["localhost:9464", "[::1]:9464", &control.address().unwrap().to_string()] {
        assert_eq!(put_under(&control, host, body).0, "HTTP/1.1 200 OK", "{host}");
    }
    assert_eq!(view.policies.get(CLASS_3), PolicyKind::Gfc);
    stop_worker(&view, worker);
}

fn answer_slowly(inbox: Inbox) -> JoinHandle<Vec<bool>> {
    std::thread::spawn(move || {
        let mut given = Vec::new();
        while given.len() < 2 * CLASSES {
            poll(&mut [PollFd::new(inbox.fd(), PollFlags::POLLIN)], PollTimeout::NONE).unwrap();
            inbox.acknowledge();
            while let Some(request) = inbox.take() {
                if let Request::SetPolicy { swap, done } = request {
                    if given.is_empty() {
                        std::thread::sleep(Duration::from_millis(300)); // the other request arrives
                    }
                    given.push(format!("{swap:?}").contains("kind: GPfc"));
                    done.send(swap).unwrap();
                }
            }
        }
        given
    })
}

#[test] // proves: policy-swap
fn simultaneous_policy_changes_run_one_after_the_other() {
    let (view, inbox) = view();
    let worker = answer_slowly(inbox);
    let control = serve(&view);
    std::thread::scope(|scope| {
        for name in ["gfc", "g-pfc"] {
            let control = &control;
            scope.spawn(move || {
                let (code, _) = put_under(control, "localhost", &format!("{{\"policy\": {name:?}}}"));
                assert_eq!(code, "HTTP/1.1 200 OK");
            });
        }
    });
    let given = worker.join().unwrap();
    let (first, second) = given.split_at(CLASSES);
    assert!(first.iter().all(|it| *it == first[0]), "{given:?}");
    assert!(second.iter().all(|it| *it != first[0]), "{given:?}");
    let last = if second[0] { PolicyKind::GPfc } else { PolicyKind::Gfc };
    assert_eq!(view.policies.get(CLASS_3), last);
}
