// Tests for SPECIFICATION.md: http

use super::*;

#[test]
fn connection_with_unfinished_request_head_is_closed() {
    let (view, _inbox) = view();
    let control = serve(&view);
    let mut stream = TcpStream::connect(control.address().unwrap()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream.write_all(b"GET /status HTTP/1.1\r\nHost: localhost\r\n").unwrap();
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).expect("connection was reset before its end");
}

#[test]
fn http_request_with_foreign_host_header_is_refused() {
    let (view, inbox) = view();
    let worker = answer(inbox);
    let http =
        listen(&SocketAddr::from(([127, 0, 0, 1], 0)).into(), None, &["leaf1.example".into()]).unwrap();
    let control = start(Arc::clone(&view), Some(http), None, None, &Confinement::default(), ()).unwrap();
    let get_as = |host: &str, path: &str| {
        let mut stream = TcpStream::connect(control.address().unwrap()).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\n{host}Connection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        (answer.split(' ').nth(1).unwrap_or_default().to_owned(), answer)
    };
    for path in ["/", "/metrics", "/status", "/addresses", "/healthz", "/policy", "/nowhere"] {
        let (code, text) = get_as("Host: rebound.example:9464\r\n", path);
        assert_eq!(code, "403", "{path}");
        assert!(text.contains("this switch is not \"rebound.example:9464\"; use localhost"), "{text}");
        assert!(text.contains("add the name to `http_hosts`"), "{text}");
    }
    for hosts in ["Host: localhost\r\nHost: localhost\r\n", "Host: rebound.example\r\nhost: localhost\r\n"] {
        let (code, text) = get_as(hosts, "/healthz");
        assert_eq!(code, "400", "{hosts}");
        assert!(text.ends_with("the request has several `Host` headers; exactly one is allowed\n"), "{text}");
    }
    for host in ["Host: localhost:9464\r\n", "Host: 192.0.2.7\r\n", "Host: leaf1.example:9464\r\n", ""] {
        assert_eq!(get_as(host, "/healthz").0, "200", "{host}");
    }
    stop_worker(&view, worker);
}

#[test]
fn read_only_switch_lists_only_read_only_paths() {
    let (view, _inbox) = view();
    let all = get(&serve(&view), "/").1;
    let routes = crate::control::http::read_only(view);
    let list = get(&serve_routes(any_port(), routes).unwrap(), "/").1;
    assert!(list.starts_with("xoff\n/ ") && list.contains("\n/policy "), "{list}");
    for refused in ["PUT", "/reload", "/acknowledge", "/capture"] {
        assert!(all.contains(refused) && !list.contains(refused), "{refused}: {list}");
    }
}

fn code_of(mut stream: TcpStream) -> String {
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).split(' ').nth(1).unwrap_or_default().to_owned()
}

#[test]
fn connection_beyond_limit_gets_503_until_others_close() {
    let (view, inbox) = view();
    let worker = answer(inbox);
    let control = serve(&view);
    let connect = || TcpStream::connect(control.address().unwrap()).unwrap();
    let ask = |stream: &mut TcpStream| {
        stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
    };
    let silent: Vec<TcpStream> = (0..CONNECTIONS_MAX).map(|_| connect()).collect();
    let mut beyond = connect();
    ask(&mut beyond);
    assert_eq!(code_of(beyond), "503");
    silent.into_iter().for_each(|stream| assert_eq!(code_of(stream), ""));
    let mut next = connect();
    ask(&mut next);
    assert_eq!(code_of(next), "200");
    stop_worker(&view, worker);
}

#[test]
fn invalid_http_requests_get_their_status_codes() {
    let (view, _inbox) = view();
    let control = serve(&view);
    let code = |request: &str| {
        let mut stream = TcpStream::connect(control.address().unwrap()).unwrap();
        let _ = stream.write_all(format!("{request}Host: localhost\r\nConnection: close\r\n\r\n").as_bytes());
        code_of(stream)
    };
    assert_eq!(code("GET /nowhere HTTP/1.1\r\n"), "404");
    assert_eq!(code("DELETE /policy HTTP/1.1\r\n"), "405");
    assert_eq!(code("what is this\r\n"), "400");
    assert_eq!(code(&format!("GET / HTTP/1.1\r\nX: {}\r\n", "x".repeat(16 << 10))), "431");
}

#[test]
fn connection_with_unread_answer_is_closed() {
    let (view, inbox) = view();
    let worker = answer_with(inbox, table(10_000));
    let control = serve(&view);
    let mut stream = TcpStream::connect(control.address().unwrap()).unwrap();
    // Request more bytes than the kernel buffers, so that the switch cannot send all answers.
    for _ in 0..200 {
        stream.write_all(b"GET /addresses?limit=10000 HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    }
    let mut ended = [PollFd::new(std::os::fd::AsFd::as_fd(&stream), PollFlags::POLLHUP)];
    assert_eq!(poll(&mut ended, PollTimeout::from(60_000u16)).unwrap(), 1);
    stop_worker(&view, worker);
}

#[test] // proves: start-stop
fn address_in_use_error_names_running_switch() {
    let somebody = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = somebody.local_addr().unwrap();
    let closes = std::thread::spawn(move || drop(somebody.accept().unwrap()));
    let error = listen(&address.into(), None, &[]).unwrap_err().to_string();
    let expected = format!("cannot serve metrics and status on {address}: Address already in use");
    assert!(error.starts_with(&expected), "{error}");
    closes.join().unwrap();

    let (view, inbox) = view();
    let worker = answer(inbox);
    let control = serve(&view);
    let at = control.at().unwrap();
    let error = listen(at, None, &[]).unwrap_err().to_string();
    let expected =
        format!("s1 is already running, pid {}: it serves at {at}; stop it first", std::process::id());
    assert!(error.starts_with(&expected), "{error}");
    stop_worker(&view, worker);
}

#[test]
fn stopped_control_thread_serves_no_client() {
    let (view, _inbox) = view();
    let control = serve(&view);
    let address = control.address().unwrap();
    assert_eq!(control.stop(), Ok(()));
    assert!(std::net::TcpStream::connect(address).is_err());
}
